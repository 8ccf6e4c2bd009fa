"""What it costs to know a cluster: listing its pods, and measuring its nodes.

API server and kubelets are played by one other process (`played_cluster`), the broker is a real
Kafka, and the processes are those that a user would start:

    watch_list_pods_per_s    pods of the full list that `watch` sends, from its first record to its last
    collect_nodes_per_s      nodes that one `collect` measures when 1,000 are due each second
    collect_cpu_cores        of `collect` alone, with 30,000 pods on 1,000 nodes, each measured every
                             10 s; `detail` has it for every process of loadstream, a worker included

The last one begins when all nodes were measured and nothing is listed any more. No pod comes or
goes meanwhile.
"""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from benchmarks import messages
from benchmarks.cluster_rig import FETCH_WAIT_MS, cpu_s, running
from benchmarks.figures import Figure, Unproven
from benchmarks.rig import PATIENCE_S, Receiver, Rig, rig, usage
from connectors.process.child_process import Guard
from simulation.processes import Loadstream, make_duty, make_environment

_KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: played, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: nobody, user: {{token: none}}}}]
contexts: [{{name: played, context: {{cluster: played, user: nobody}}}}]
current-context: played
"""
_SOURCES = """
sources:
  - source: kubelet_resource
    interval: {interval}
    url: "http://127.0.0.1:{port}/kubelet/{{node}}"
"""
_LOOK_S = 0.2


class Place:
    """A broker, a played cluster, and where processes have their files."""

    def __init__(self, rig: Rig, directory: Path, port: int, played_pid: int) -> None:
        self.rig = rig
        self.played_pid = played_pid
        self._directory = directory
        self._port = port
        self._kubeconfig = directory / "kubeconfig"
        self._kubeconfig.write_text(_KUBECONFIG.format(port=port))

    def duty(self, name: str, interval: str = "") -> Loadstream:
        """A process of this duty; `interval` is for one that collects."""
        more = []
        if interval:
            sources = self._directory / "sources.yaml"
            sources.write_text(_SOURCES.format(port=self._port, interval=interval))
            more = ["--sources", str(sources)]
        settings = make_environment(self.rig.settings)
        return make_duty(self._directory, name, messages.CLUSTER, self._kubeconfig, settings, more)


@contextmanager
def _place(nodes: int, pods_per_node: int) -> Iterator[Place]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="loadstream-")))
        command = [
            sys.executable,
            "-m",
            "benchmarks.played_cluster",
            str(nodes),
            str(pods_per_node),
        ]
        played = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603 - ours
        stack.enter_context(played)
        stack.callback(played.kill)
        stack.callback(Guard(played).dismiss)
        said = played.stdout.readline() if played.stdout else b""
        if not said:
            raise Unproven("no cluster is played")
        yield Place(stack.enter_context(rig("kafka")), directory, int(said), played.pid)


@cache
def listing(nodes: int, pods_per_node: int) -> dict[str, Any]:
    """From the first record of a full list to its last."""
    count = nodes * pods_per_node
    topics = ["pod-lifecycle", "node-state"]
    with _place(nodes, pods_per_node) as place:
        watch = place.duty("watch")
        receiver = Receiver(place.rig.settings, topics, fetch_wait_ms=FETCH_WAIT_MS)
        with receiver, running({"watch": watch}):
            seen: Counter[str] = Counter()
            ends = first_s = last_s = 0.0
            deadline_s = time.monotonic() + PATIENCE_S
            while ends < len(topics):
                for arrival in receiver.arrivals(_LOOK_S):
                    first_s, last_s = first_s or arrival.at_s, arrival.at_s
                    deadline_s = last_s + PATIENCE_S
                    seen[arrival.topic] += 1
                    ends += b'"list-end"' in arrival.value[:200]
                watch.check()
                if time.monotonic() > deadline_s:
                    raise Unproven(f"{seen} came; {watch.output()[-500:]}")
            if watch.pid is None:
                raise Unproven("the watch has ended by itself")
            used = usage(watch.pid)
            # What a single look finds took no longer than that.
            took_s = max(last_s - first_s, _LOOK_S)
    if seen["pod-lifecycle"] < count or seen["node-state"] < nodes:
        raise Unproven(f"{seen} came of {count} pods and {nodes} nodes")
    return {
        "nodes": nodes,
        "pods": count,
        "pods_per_s": round(count / took_s),
        "seconds": round(took_s, 2),
        "watch_cpu_s_since_its_start": round(used.cpu_s, 2),
        "watch_rss_mib": round(used.rss_mib),
    }


@cache
def collecting(
    nodes: int, pods_per_node: int, interval: str, seconds: int, *, with_others: bool
) -> dict[str, Any]:
    """Measure all nodes for so long, with all other processes of loadstream or without them."""
    with ExitStack() as stack:
        place = stack.enter_context(_place(nodes, pods_per_node))
        processes = {"collect": place.duty("collect", interval)}
        pids: dict[str, int | None] = {}
        if with_others:
            processes |= {name: place.duty(name) for name in ("watch", "bind", "evict")}
            worker = stack.enter_context(place.rig.worker("all"))
            pids["worker"] = worker.pid
        stack.enter_context(running(processes))
        receiver = Receiver(place.rig.settings, ["node-usage"], fetch_wait_ms=FETCH_WAIT_MS)
        with receiver:
            pids |= {name: each.pid for name, each in processes.items()}
            pids |= {"kafka": place.rig.broker_pid, "played_cluster": place.played_pid}
            _until_all_measured(receiver, nodes, processes["collect"])
            before, began_s = cpu_s(pids), time.monotonic()
            samples = pods = 0
            measured: Counter[str] = Counter()
            while time.monotonic() < began_s + seconds:
                for arrival in receiver.arrivals(_LOOK_S):
                    found = orjson.loads(arrival.value)
                    measured[found["node"]] += 1
                    samples, pods = samples + 1, pods + len(found["pods"])
            took_s = time.monotonic() - began_s
            after = cpu_s(pids)
    if len(measured) < nodes or pods < samples * pods_per_node:
        raise Unproven(
            f"{len(measured)} of {nodes} nodes measured, {pods} pods in {samples} samples"
        )
    cores = {name: round((after[name] - before[name]) / took_s, 3) for name in pids}
    ours = {name: cores[name] for name in (*processes, *(["worker"] if with_others else []))}
    return {
        "nodes": nodes,
        "pods": nodes * pods_per_node,
        "interval": interval,
        "seconds": round(took_s, 1),
        "nodes_per_s": round(samples / took_s, 1),
        "cpu_us_per_node": round(1e6 * (after["collect"] - before["collect"]) / samples),
        "cpu_cores": cores,
        "cpu_cores_of_loadstream": round(sum(ours.values()), 3),
    }


def _until_all_measured(receiver: Receiver, nodes: int, collect: Loadstream) -> None:
    """Every node was measured twice: rates are known, and nothing is listed any more."""
    measured: Counter[str] = Counter()
    deadline_s = time.monotonic() + PATIENCE_S
    while len(measured) < nodes or min(measured.values()) < 2:
        for arrival in receiver.arrivals(_LOOK_S):
            measured[orjson.loads(arrival.value)["node"]] += 1
        collect.check()
        if time.monotonic() > deadline_s:
            raise Unproven(f"{len(measured)} of {nodes} nodes measured; {collect.output()[-500:]}")


def _watch_list(name: str) -> Figure:
    measured = listing(5_000, 30)
    return Figure(name, measured["pods_per_s"], "1/s", measured)


def _collect_rate(name: str) -> Figure:
    measured = collecting(1_000, 30, "1s", 20, with_others=False)
    return Figure(name, measured["nodes_per_s"], "1/s", measured)


def _collect_cpu(name: str) -> Figure:
    measured = collecting(1_000, 30, "10s", 40, with_others=True)
    return Figure(name, measured["cpu_cores"]["collect"], "cores", measured)


BENCHMARKS = {
    "watch_list_pods_per_s": partial(_watch_list, "watch_list_pods_per_s"),
    "collect_nodes_per_s": partial(_collect_rate, "collect_nodes_per_s"),
    "collect_cpu_cores": partial(_collect_cpu, "collect_cpu_cores"),
}
"""All figures of this module, by name."""
