"""Synthetic clusters for benchmarks, made from a seed by the records that the agent applies."""

import numpy as np

from schemas.messages.metrics import AGGREGATION_TYPES, AggregatedUsage, NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Container, Pod
from schemas.policy import LOAD_AWARE, OVERUTILIZATION_RISK, Policy
from schemas.policy.sections.plugins import BALANCED_ALLOCATION, RESOURCES_FIT
from streams.cluster.state import ClusterState, Position

CLUSTER = "bench"
NOW_MS = 1_800_000_000_000
_GIB = 2**30
_SIZES = ((32, 128), (64, 256), (96, 384))

#: Thresholds and raw allocatable as annotations, slightly different from node to node.
_THRESHOLDS = (
    '{{"usageThresholds":{{"cpu":{0}}},"aggregatedUsage":{{"usageThresholds":{{"cpu":{0},"memory":90}},'
    '"usageAggregationType":"p95","usageAggregatedDuration":"5m"}}}}'
)


def cluster(nodes: int, policy: Policy, *, annotated: bool = False, seed: int = 1) -> ClusterState:
    """A cluster of `nodes` nodes with fresh metrics."""
    state = ClusterState(CLUSTER)
    state.set_policy(policy)
    state.advance(NOW_MS)
    random = np.random.default_rng(seed)
    for number in range(nodes):
        cores, gib = _SIZES[number % len(_SIZES)]
        annotations = {}
        if annotated:
            annotations = {
                "scheduling.koordinator.sh/usage-thresholds": _THRESHOLDS.format(60 + number % 20),
                "node.koordinator.sh/raw-allocatable": f'{{"cpu":"{cores - 1}"}}',
            }
        node = NodeState(
            cluster=CLUSTER,
            node=f"node-{number:05}",
            event="added",
            allocatable={"cpu": str(cores), "memory": f"{gib}Gi", "pods": "110"},
            annotations=annotations,
        )
        state.apply(node, _position("node-state", number))
        state.apply(metric(number, random), _position("node-metrics", number))
    state.inventory.lay_out()
    return state


def metric(number: int, random: np.random.Generator) -> NodeMetric:
    """A fresh metric of a node: most are moderately used, some are hot."""
    cores, gib = _SIZES[number % len(_SIZES)]
    usage = {
        "cpu": int(random.beta(2, 3) * cores * 1000),
        "memory": int(random.beta(4, 3) * gib * _GIB),
    }
    figures = AggregatedUsage(duration_ms=300_000, usage=dict.fromkeys(AGGREGATION_TYPES, usage))
    return NodeMetric(
        cluster=CLUSTER,
        node=f"node-{number:05}",
        updated_at_ms=NOW_MS - 1000,
        usage=usage,
        aggregated=(figures,),
    )


def pod(number: int, *, millicores: int = 500, mebibytes: int = 1024) -> Pod:
    """A burstable pod; the same requests make it of the same kind."""
    return Pod(
        namespace="default",
        name=f"pod-{number}",
        uid=f"uid-{number}",
        containers=(
            Container(
                requests={"cpu": f"{millicores}m", "memory": f"{mebibytes}Mi"},
                limits={"cpu": f"{2 * millicores}m", "memory": f"{2 * mebibytes}Mi"},
            ),
        ),
    )


def policy(variant: str) -> Policy:
    """The policy of a variant; by default load-aware alone with its default arguments."""
    only_load = {"filter": [LOAD_AWARE], "score": [LOAD_AWARE]}
    document: dict[str, object] = {"plugins": only_load}
    if variant == "all_plugins":
        document = {"plugins": {"score": [LOAD_AWARE, "NodeResourceLimitsAware"]}}
    elif variant == "by_requests":
        document = {"plugins": {"score": [LOAD_AWARE, RESOURCES_FIT, BALANCED_ALLOCATION]}}
    elif variant == "risk":
        document = {"plugins": {"score": [OVERUTILIZATION_RISK]}}
    elif variant in ("aggregated", "annotated"):
        document["loadAware"] = {
            "aggregated": {
                "usageThresholds": {"cpu": 65, "memory": 95},
                "usageAggregationType": "p95",
                "usageAggregatedDuration": "5m",
                "scoreAggregationType": "p95",
                "scoreAggregatedDuration": "5m",
            }
        }
    return Policy.model_validate(document)


def _position(topic: str, offset: int) -> Position:
    return Position(topic, 0, offset, {topic: offset})
