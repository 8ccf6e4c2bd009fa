"""Cost of listing the pods of a cluster, and of measuring its nodes.

One process imitates API server and kubelets (`played_cluster`). The broker is a real Kafka, and loadstream
runs as the processes of a user:

    watch_list_pods_per_s    pods per second in a full list by `watch`, from the first to the last record
    collect_nodes_per_s      nodes per second that one `collect` measures when 1,000 are due each second
    collect_cpu_cores        CPU of `collect`, with 30,000 pods on 1,000 nodes, measured every 10 s;
                             `detail` has the CPU of every process, including a worker

The measurement of `collect` begins when all lists are complete and every node was measured twice. Pods do
not change during the measurement.
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
from benchmarks.cluster_rig import FETCH_WAIT_MS, read_cpu, start_and_stop
from benchmarks.figures import Figure, Unproven
from benchmarks.rig import PATIENCE_S, Receiver, Rig, read_usage, start_rig
from connectors.process.child_process import Guard
from simulation.processes import LoadstreamProcess, make_duty, make_environment

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


class PlayedRig:
    """A broker, a fake cluster, and a directory for the files of processes."""

    def __init__(self, rig: Rig, directory: Path, port: int, played_pid: int) -> None:
        self.rig = rig
        self.played_pid = played_pid
        self._directory = directory
        self._port = port
        self._kubeconfig = directory / "kubeconfig"
        self._kubeconfig.write_text(_KUBECONFIG.format(port=port))

    def make_duty(self, name: str, interval: str = "") -> LoadstreamProcess:
        """Return a process of a duty; only `collect` has an `interval`."""
        more = []
        if interval:
            sources = self._directory / "sources.yaml"
            sources.write_text(_SOURCES.format(port=self._port, interval=interval))
            more = ["--sources", str(sources)]
        settings = make_environment(self.rig.settings)
        return make_duty(self._directory, name, messages.CLUSTER, self._kubeconfig, settings, more)


@contextmanager
def _play_cluster(nodes: int, pods_per_node: int) -> Iterator[PlayedRig]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="loadstream-")))
        sizes = str(nodes), str(pods_per_node)
        command = [sys.executable, "-m", "benchmarks.played_cluster", *sizes]
        played = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603 - ours
        stack.enter_context(played)
        stack.callback(played.kill)
        stack.callback(Guard(played).dismiss)
        port_line = played.stdout.readline() if played.stdout else b""
        if not port_line:
            raise Unproven("the fake cluster ended before it printed its port")
        bench = stack.enter_context(start_rig("kafka"))
        yield PlayedRig(bench, directory, int(port_line), played.pid)


@cache
def measure_listing(nodes: int, pods_per_node: int) -> dict[str, Any]:
    """Measure a full list from its first to its last record."""
    count = nodes * pods_per_node
    topics = ["pod-lifecycle", "node-state"]
    with _play_cluster(nodes, pods_per_node) as played_rig:
        watch = played_rig.make_duty("watch")
        receiver = Receiver(played_rig.rig.settings, topics, fetch_wait_ms=FETCH_WAIT_MS)
        with receiver, start_and_stop({"watch": watch}):
            seen: Counter[str] = Counter()
            ends = first_s = last_s = 0.0
            deadline_s = time.monotonic() + PATIENCE_S
            while ends < len(topics):
                for arrival in receiver.receive(_LOOK_S):
                    first_s, last_s = first_s or arrival.at_s, arrival.at_s
                    deadline_s = last_s + PATIENCE_S
                    seen[arrival.topic] += 1
                    ends += b'"list-end"' in arrival.value[:200]
                watch.check()
                if time.monotonic() > deadline_s:
                    raise Unproven(f"received only {seen} records; {watch.output()[-500:]}")
            if watch.pid is None:
                raise Unproven("the watch has ended by itself")
            used = read_usage(watch.pid)
            # All records of one call have the same time, although the call may take `_LOOK_S`.
            took_s = max(last_s - first_s, _LOOK_S)
    if seen["pod-lifecycle"] < count or seen["node-state"] < nodes:
        raise Unproven(f"received {seen} records of {count} pods and {nodes} nodes")
    return {
        "nodes": nodes,
        "pods": count,
        "pods_per_s": round(count / took_s),
        "seconds": round(took_s, 2),
        "watch_cpu_s_since_its_start": round(used.cpu_s, 2),
        "watch_rss_mib": round(used.rss_mib),
    }


@cache
def measure_collecting(
    nodes: int, pods_per_node: int, interval: str, seconds: int, *, with_others: bool
) -> dict[str, Any]:
    """Measure all nodes for `seconds`, with or without the other processes of loadstream."""
    with ExitStack() as stack:
        played_rig = stack.enter_context(_play_cluster(nodes, pods_per_node))
        processes = {"collect": played_rig.make_duty("collect", interval)}
        pids: dict[str, int | None] = {}
        if with_others:
            processes |= {name: played_rig.make_duty(name) for name in ("watch", "bind", "evict")}
            worker = stack.enter_context(played_rig.rig.run_worker("all"))
            pids["worker"] = worker.pid
        stack.enter_context(start_and_stop(processes))
        receiver = Receiver(played_rig.rig.settings, ["node-usage"], fetch_wait_ms=FETCH_WAIT_MS)
        with receiver:
            pids |= {name: process.pid for name, process in processes.items()}
            pids |= {"kafka": played_rig.rig.broker_pid, "played_cluster": played_rig.played_pid}
            _wait_until_measured(receiver, nodes, processes["collect"])
            before, began_s = read_cpu(pids), time.monotonic()
            samples = pods = 0
            measured: Counter[str] = Counter()
            while time.monotonic() < began_s + seconds:
                for arrival in receiver.receive(_LOOK_S):
                    sample = orjson.loads(arrival.value)
                    measured[sample["node"]] += 1
                    samples, pods = samples + 1, pods + len(sample["pods"])
            took_s = time.monotonic() - began_s
            after = read_cpu(pids)
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


def _wait_until_measured(receiver: Receiver, nodes: int, collect: LoadstreamProcess) -> None:
    """Wait until every node was measured twice: all lists are complete, and CPU rates exist."""
    measured: Counter[str] = Counter()
    deadline_s = time.monotonic() + PATIENCE_S
    while len(measured) < nodes or min(measured.values()) < 2:
        for arrival in receiver.receive(_LOOK_S):
            measured[orjson.loads(arrival.value)["node"]] += 1
        collect.check()
        if time.monotonic() > deadline_s:
            raise Unproven(f"{len(measured)} of {nodes} nodes measured; {collect.output()[-500:]}")


def _watch_list(name: str) -> Figure:
    measured = measure_listing(5_000, 30)
    return Figure(name, measured["pods_per_s"], "1/s", measured)


def _collect_rate(name: str) -> Figure:
    measured = measure_collecting(1_000, 30, "1s", 20, with_others=False)
    return Figure(name, measured["nodes_per_s"], "1/s", measured)


def _collect_cpu(name: str) -> Figure:
    measured = measure_collecting(1_000, 30, "10s", 40, with_others=True)
    return Figure(name, measured["cpu_cores"]["collect"], "cores", measured)


BENCHMARKS = {
    "watch_list_pods_per_s": partial(_watch_list, "watch_list_pods_per_s"),
    "collect_nodes_per_s": partial(_collect_rate, "collect_nodes_per_s"),
    "collect_cpu_cores": partial(_collect_cpu, "collect_cpu_cores"),
}
"""All figures of this module, by name."""
