"""Cost of listing the pods of a cluster, and of measuring its nodes.

One process imitates API server and kubelets (`fake_cluster`). The broker is a real Kafka, and loadstream
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
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from benchmarks import messages
from benchmarks.cluster_rig import FETCH_WAIT_MS, CpuMeter
from benchmarks.figures import CheckFailed, Figure
from benchmarks.rig import TIMEOUT_S, Receiver, Rig, read_usage, start_rig
from connectors.process.child_process import Guard
from simulation.processes import LoadstreamProcess, make_duty, make_environment, run_processes

_KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: fake_cluster, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: nobody, user: {{token: none}}}}]
contexts: [{{name: fake_cluster, context: {{cluster: fake_cluster, user: nobody}}}}]
current-context: fake_cluster
"""
_SOURCES = """
sources:
  - source: kubelet_resource
    interval: {interval}
    url: "http://127.0.0.1:{port}/kubelet/{{node}}"
"""
_POLL_S = 0.2


class FakeClusterRig:
    """A broker, a fake cluster, and a directory for the files of processes."""

    def __init__(self, rig: Rig, directory: Path, port: int, fake_cluster_pid: int) -> None:
        self.rig = rig
        self.fake_cluster_pid = fake_cluster_pid
        self._directory = directory
        self._port = port
        self._kubeconfig = directory / "kubeconfig"
        self._kubeconfig.write_text(_KUBECONFIG.format(port=port))

    def make_duty(self, name: str, interval: str = "") -> LoadstreamProcess:
        """Return a process of a duty; only `collect` has an `interval`."""
        options = []
        if interval:
            sources = self._directory / "sources.yaml"
            sources.write_text(_SOURCES.format(port=self._port, interval=interval))
            options = ["--sources", str(sources)]
        settings = make_environment(self.rig.settings)
        return make_duty(
            self._directory, name, messages.CLUSTER, self._kubeconfig, settings, options
        )


@contextmanager
def _start_fake_cluster(nodes: int, pods_per_node: int) -> Iterator[FakeClusterRig]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory(prefix="loadstream-")))
        sizes = str(nodes), str(pods_per_node)
        command = [sys.executable, "-m", "benchmarks.fake_cluster", *sizes]
        fake_cluster = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603 - ours
        stack.enter_context(fake_cluster)
        stack.callback(fake_cluster.kill)
        stack.callback(Guard(fake_cluster).dismiss)
        port_line = fake_cluster.stdout.readline() if fake_cluster.stdout else b""
        if not port_line:
            raise CheckFailed("the fake cluster ended before it printed its port")
        rig = stack.enter_context(start_rig("kafka"))
        yield FakeClusterRig(rig, directory, int(port_line), fake_cluster.pid)


@cache
def measure_listing(nodes: int, pods_per_node: int) -> dict[str, Any]:
    """Measure a full list from its first to its last record."""
    count = nodes * pods_per_node
    topics = ["pod-lifecycle", "node-state"]
    with _start_fake_cluster(nodes, pods_per_node) as fake_rig:
        watch = fake_rig.make_duty("watch")
        receiver = Receiver(fake_rig.rig.settings, topics, fetch_wait_ms=FETCH_WAIT_MS)
        with receiver, run_processes([watch]):
            seen: Counter[str] = Counter()
            ends = first_s = last_s = 0.0
            deadline_s = time.monotonic() + TIMEOUT_S
            while ends < len(topics):
                for arrival in receiver.receive(_POLL_S):
                    first_s, last_s = first_s or arrival.at_s, arrival.at_s
                    deadline_s = last_s + TIMEOUT_S
                    seen[arrival.topic] += 1
                    ends += b'"list-end"' in arrival.value[:200]
                watch.check()
                if time.monotonic() > deadline_s:
                    raise CheckFailed(f"received only {seen} records; {watch.output()[-500:]}")
            if watch.pid is None:
                raise CheckFailed("the watch has ended by itself")
            used = read_usage(watch.pid)
            # All records of one call have the same time, although the call may take `_POLL_S`.
            took_s = max(last_s - first_s, _POLL_S)
    if seen["pod-lifecycle"] < count or seen["node-state"] < nodes:
        raise CheckFailed(f"received {seen} records of {count} pods and {nodes} nodes")
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
        fake_rig = stack.enter_context(_start_fake_cluster(nodes, pods_per_node))
        processes = {"collect": fake_rig.make_duty("collect", interval)}
        pids: dict[str, int | None] = {}
        if with_others:
            processes |= {name: fake_rig.make_duty(name) for name in ("watch", "bind", "evict")}
            worker = stack.enter_context(fake_rig.rig.run_worker("all"))
            pids["worker"] = worker.pid
        stack.enter_context(run_processes([*processes.values()]))
        receiver = Receiver(fake_rig.rig.settings, ["node-usage"], fetch_wait_ms=FETCH_WAIT_MS)
        with receiver:
            pids |= {name: process.pid for name, process in processes.items()}
            pids |= {"kafka": fake_rig.rig.broker_pid, "played_cluster": fake_rig.fake_cluster_pid}
            _wait_until_measured(receiver, nodes, processes["collect"])
            meter, began_s = CpuMeter(pids), time.monotonic()
            samples = pods = 0
            measured: Counter[str] = Counter()
            while time.monotonic() < began_s + seconds:
                for arrival in receiver.receive(_POLL_S):
                    sample = orjson.loads(arrival.value)
                    measured[sample["node"]] += 1
                    samples, pods = samples + 1, pods + len(sample["pods"])
            took_s = time.monotonic() - began_s
            cpu_s = meter.read()
    if len(measured) < nodes or pods < samples * pods_per_node:
        raise CheckFailed(
            f"{len(measured)} of {nodes} nodes measured, {pods} pods in {samples} samples"
        )
    cores = {name: round(used_s / took_s, 3) for name, used_s in cpu_s.items()}
    ours = {name: cores[name] for name in (*processes, *(["worker"] if with_others else []))}
    return {
        "nodes": nodes,
        "pods": nodes * pods_per_node,
        "interval": interval,
        "seconds": round(took_s, 1),
        "nodes_per_s": round(samples / took_s, 1),
        "cpu_us_per_node": round(1e6 * cpu_s["collect"] / samples),
        "cpu_cores": cores,
        "cpu_cores_of_loadstream": round(sum(ours.values()), 3),
    }


def _wait_until_measured(receiver: Receiver, nodes: int, collect: LoadstreamProcess) -> None:
    """Wait until every node was measured twice: all lists are complete, and CPU rates exist."""
    measured: Counter[str] = Counter()
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(measured) < nodes or min(measured.values()) < 2:
        for arrival in receiver.receive(_POLL_S):
            measured[orjson.loads(arrival.value)["node"]] += 1
        collect.check()
        if time.monotonic() > deadline_s:
            raise CheckFailed(
                f"{len(measured)} of {nodes} nodes measured; {collect.output()[-500:]}"
            )


def _measure_watch_list() -> Figure:
    measured = measure_listing(5_000, 30)
    return Figure(measured["pods_per_s"], "1/s", measured)


def _measure_collect_rate() -> Figure:
    measured = measure_collecting(1_000, 30, "1s", 20, with_others=False)
    return Figure(measured["nodes_per_s"], "1/s", measured)


def _measure_collect_cpu() -> Figure:
    measured = measure_collecting(1_000, 30, "10s", 40, with_others=True)
    return Figure(measured["cpu_cores"]["collect"], "cores", measured)


BENCHMARKS = {
    "watch_list_pods_per_s": _measure_watch_list,
    "collect_nodes_per_s": _measure_collect_rate,
    "collect_cpu_cores": _measure_collect_cpu,
}
"""All figures of this module, by name."""
