"""Messages of the producers of one cluster, drawn from a seed."""

from collections.abc import Iterator

import numpy as np

from connectors.process.wall_clock import now_ms
from schemas.messages.decisions import SchedulingRequest
from schemas.messages.metrics import AGGREGATION_TYPES, AggregatedUsage, NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Container, Pod, PodLifecycle
from schemas.messages.usage import NodeUsage, PodUsage

CLUSTER = "bench"

#: Time between two samples of a node, and number of samples per metric (the default report interval).
SAMPLE_INTERVAL_MS = 15_000
SAMPLES_PER_METRIC = 4

_GIB = 2**30
_MIB = 2**20
#: Sizes of nodes: cores, GiB.
_SIZES = ((32, 128), (64, 256), (96, 384))
#: Number of kinds of running pods, and default number of kinds of waiting pods.
KINDS = 8


def node_name(number: int) -> str:
    return f"node-{number:05}"


def make_node_states(nodes: int) -> Iterator[NodeState]:
    return map(make_node_state, range(nodes))


def make_node_state(number: int) -> NodeState:
    cores, gib = _SIZES[number % len(_SIZES)]
    return NodeState(
        cluster=CLUSTER,
        node=node_name(number),
        event="added",
        allocatable={"cpu": str(cores), "memory": f"{gib}Gi", "pods": "110"},
    )


def make_node_metrics(nodes: int) -> Iterator[NodeMetric]:
    random = np.random.default_rng(1)
    return (make_node_metric(number, random, now_ms()) for number in range(nodes))


def make_node_metric(number: int, random: np.random.Generator, updated_at_ms: int) -> NodeMetric:
    """Draw a metric of a node: most nodes have moderate usage, some are hot."""
    cores, gib = _SIZES[number % len(_SIZES)]
    usage = {
        "cpu": int(random.beta(2, 3) * cores * 1000),
        "memory": int(random.beta(4, 3) * gib * _GIB),
    }
    figures = AggregatedUsage(duration_ms=300_000, usage=dict.fromkeys(AGGREGATION_TYPES, usage))
    return NodeMetric(
        cluster=CLUSTER,
        node=node_name(number),
        updated_at_ms=updated_at_ms,
        usage=usage,
        aggregated=(figures,),
    )


def make_running_pods(nodes: int, pods_per_node: int) -> Iterator[PodLifecycle]:
    for number in range(nodes):
        for index in range(pods_per_node):
            pod = make_pod(f"running-{number:05}-{index}", *_compute_size(number + index, KINDS))
            bound = pod.model_copy(update={"node": node_name(number), "phase": "Running"})
            yield PodLifecycle(cluster=CLUSTER, event="bound", pod=bound)


def make_request(number: int, kinds: int = KINDS) -> SchedulingRequest:
    """Return the request of a pod of kind `number` modulo `kinds`."""
    pod = make_pod(f"asking-{number}", *_compute_size(number, kinds))
    return SchedulingRequest(cluster=CLUSTER, pod=pod, requested_at_ms=now_ms())


def make_usage_samples(nodes: int, rounds: int, pods: int) -> Iterator[NodeUsage]:
    """Yield samples of all nodes, round by round; the last samples have the current time."""
    random = np.random.default_rng(1)
    newest_ms = now_ms()
    for rounds_left in reversed(range(rounds)):
        for number in range(nodes):
            cores = random.integers(5, 900, size=pods).tolist()
            bytes_used = (random.integers(20, 2_000, size=pods) * _MIB).tolist()
            yield NodeUsage(
                cluster=CLUSTER,
                node=node_name(number),
                sampled_at_ms=newest_ms - rounds_left * SAMPLE_INTERVAL_MS,
                usage={"cpu": sum(cores) + 500, "memory": sum(bytes_used) + _GIB},
                pods=tuple(
                    PodUsage(
                        namespace="default",
                        name=f"running-{number:05}-{index}",
                        uid=_make_uid(f"running-{number:05}-{index}"),
                        usage={"cpu": cores[index], "memory": bytes_used[index]},
                    )
                    for index in range(pods)
                ),
            )


def _compute_size(number: int, kinds: int) -> tuple[int, int]:
    """Return millicores and MiB of a kind."""
    further, size = divmod(number % kinds, 8)
    return 100 + 50 * size + further, 256 * (1 + size)


def make_pod(name: str, millicores: int, mebibytes: int) -> Pod:
    """Return a burstable pod; pods with equal requests have the same kind."""
    return Pod(
        namespace="default",
        name=name,
        uid=_make_uid(name),
        labels={"app": "bench"},
        containers=(
            Container(
                requests={"cpu": f"{millicores}m", "memory": f"{mebibytes}Mi"},
                limits={"cpu": f"{2 * millicores}m", "memory": f"{2 * mebibytes}Mi"},
            ),
        ),
    )


def _make_uid(name: str) -> str:
    return f"uid-{name}"
