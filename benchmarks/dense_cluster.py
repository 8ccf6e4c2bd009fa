"""The cluster stage with one dense cluster, its input records, and the CPU time of records."""

import gc
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from time import process_time_ns
from typing import Any, TypeVar

import orjson

from benchmarks.messages import node_name
from schemas.messages.clock import ClockTick
from schemas.messages.decisions import SchedulingRequest
from schemas.messages.metrics import NodeMetric, PodMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Container, OwnerReference, Pod, PodLifecycle
from schemas.messages.policies import PolicyRecord
from schemas.topics.codec import encode
from streams.cluster.stage import ClusterStage
from streams.stage.records import InputRecord, Stage, StageResult

T = TypeVar("T")

CLUSTER = "bench"
NOW_MS = 1_800_000_000_000
NODES = 5_000
PODS_PER_NODE = 30
_GIB = 2**30
_CORES = 64


class DenseCluster:
    """The stage of one partition; builds and applies input records."""

    def __init__(self, *, pods: int = PODS_PER_NODE, wide: bool = False) -> None:
        """Apply the records of a cluster of `NODES` nodes.

        Args:
            pods: number of pods on each node.
            wide: nodes have 128 labels and 64 resources, the maximum that one pod may use.
        """
        self.stage = ClusterStage(0, 1)
        self.now_ms = NOW_MS
        self._ends: dict[str, int] = {}
        self.apply(self.make_tick(0))
        for number in range(NODES):
            node_pods = make_node_pods(number, pods)
            self.apply(
                self.make_record("node-state", make_node(number, wide=wide)),
                self.make_record("node-metrics", make_metric(number, node_pods)),
                *(self.make_running(running) for running in node_pods),
            )
        self.apply(self.make_request(make_pod("first")))
        for _ in range(6):
            # The first round, and the packing of nodes for the next rounds.
            self.apply(self.make_tick(1))

    # --- records ----------------------------------------------------------------------------------

    def make_record(self, topic: str, message: Any) -> InputRecord:
        offset = self._ends.get(topic, 0)
        self._ends[topic] = offset + 1
        key = b"0" if topic == "clock" else CLUSTER.encode()
        return InputRecord(topic, 0, offset, key, encode(message), timestamp_ms=0)

    def make_tick(self, seconds: float) -> InputRecord:
        """Return a clock record `seconds` after the last clock record."""
        self.now_ms += int(seconds * 1000)
        return self.make_record("clock", ClockTick(partition=0, now_ms=self.now_ms))

    def make_request(self, waiting: Pod) -> InputRecord:
        message = SchedulingRequest(cluster=CLUSTER, pod=waiting, requested_at_ms=NOW_MS)
        return self.make_record("scheduling-requests", message)

    def make_running(self, running: Pod) -> InputRecord:
        message = PodLifecycle(cluster=CLUSTER, event="running", pod=running)
        return self.make_record("pod-lifecycle", message)

    def make_policy(self, document: str) -> InputRecord:
        message = PolicyRecord(cluster=CLUSTER, document=document, applied_at_ms=NOW_MS)
        return self.make_record("policies", message)

    # --- time -------------------------------------------------------------------------------------

    def apply(self, *records: InputRecord) -> StageResult:
        """Apply the records in one batch."""
        return self.stage.apply(records)

    def measure_ms(self, records: Iterable[InputRecord]) -> float:
        """Apply records one by one; return the CPU time of the slowest record."""
        return measure_longest_ms(self.stage, records)


def measure_longest_ms(stage: Stage, records: Iterable[InputRecord]) -> float:
    """Apply records one by one, without garbage collection; return the CPU time of the slowest."""
    gc.collect()
    gc.disable()
    longest = 0
    try:
        for record in records:
            began = process_time_ns()
            stage.apply([record])
            longest = max(longest, process_time_ns() - began)
    finally:
        gc.enable()
    return longest / 1e6


def run_in_copy(measure: Callable[[], T]) -> T:
    """Run a measurement in a fork of this process; return its result, which must fit into JSON."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        failed = True
        try:
            os.write(writing, orjson.dumps(measure()))
            failed = False
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(failed)
    os.close(writing)
    with os.fdopen(reading, "rb") as result:
        text = result.read()
    os.waitpid(child, 0)
    value: T = orjson.loads(text)
    return value


def make_node(number: int, *, wide: bool = False) -> NodeState:
    allocatable = {"cpu": str(_CORES), "memory": "256Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": node_name(number), "zone": f"zone-{number % 3}"}
    if wide:
        allocatable |= {f"example.com/r{index:02}": "1" for index in range(61)}
        labels |= {f"label-{index:03}": f"v{number % (index + 2)}" for index in range(126)}
    return NodeState(
        cluster=CLUSTER,
        node=node_name(number),
        event="added",
        allocatable=allocatable,
        labels=labels,
    )


def make_pod(
    uid: str, *, node: int | None = None, millicores: int | None = None, **fields: Any
) -> Pod:
    """Return a pod with one of eight CPU requests, or with the given request."""
    cpu = 400 + 50 * (len(uid) % 8) if millicores is None else millicores
    amounts = {"cpu": f"{cpu}m", "memory": "1Gi"}
    return Pod.model_validate(
        {
            "namespace": "default",
            "name": uid,
            "uid": uid,
            "node": None if node is None else node_name(node),
            "phase": "Pending" if node is None else "Running",
            "ready": node is not None,
            "scheduler": "koord-scheduler",
            "owners": (OwnerReference(kind="ReplicaSet", name="web", uid="web", controller=True),),
            "containers": (Container(requests=amounts, limits=amounts),),
            **fields,
        }
    )


def make_node_pods(number: int, count: int = PODS_PER_NODE) -> list[Pod]:
    return [make_pod(f"{number}-{index}", node=number) for index in range(count)]


def make_metric(number: int, pods: Sequence[Pod], *, share: float | None = None) -> NodeMetric:
    """Return a fresh metric of a node and its pods; every twentieth node is hot."""
    share = (0.85 if number % 20 == 0 else 0.3 + number % 30 / 100) if share is None else share
    used = int(share * _CORES * 1000)
    pod_usage = {"cpu": used // max(1, len(pods)), "memory": _GIB}
    return NodeMetric(
        cluster=CLUSTER,
        node=node_name(number),
        updated_at_ms=NOW_MS - 1000,
        usage={"cpu": used, "memory": 64 * _GIB},
        pods=tuple(PodMetric(namespace=of.namespace, name=of.name, usage=pod_usage) for of in pods),
    )
