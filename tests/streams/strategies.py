"""Nodes, pods, metrics, annotations, policies and histories for property tests.

Domains are so small that draws often meet: a few names, labels, taints, ports and amounts. Malformed
expressions, odd amounts and broken annotations are among them, because people send those too.
"""

import json
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from schemas.messages.metrics import AGGREGATION_TYPES, AggregatedUsage, NodeMetric, PodMetric
from schemas.messages.nodes import NodeState, Taint
from schemas.messages.pods import (
    Container,
    HostPort,
    NodeRequirement,
    NodeSelectorTerm,
    Pod,
    PodLifecycle,
    Toleration,
)
from schemas.policy import LoadAwareSchedulingArgs, Policy
from schemas.policy.sections.plugins import BUILT_IN, EnabledPlugin, PluginChoice, ScorePlugin
from schemas.policy.sections.resource_limits import NodeResourceLimitsAwareArgs
from schemas.policy.sections.resources_fit import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from streams.pods.kind import Kind, kind_of
from tests.plugin_arguments import load_aware_args
from tests.streams.builders import (
    AFTER_INITIALIZED,
    AFTER_SCHEDULED,
    CLUSTER,
    GI,
    RAW_ALLOCATABLE,
    SCALING_FACTORS,
    THRESHOLDS,
    at,
    bare_pod,
    lifecycle,
    removed_node,
)

NODE_NAMES = tuple(f"node-{i}" for i in range(6))
UIDS = tuple(f"uid-{i}" for i in range(12))

_LABEL_KEYS = st.sampled_from(("zone", "disk", "example.com/cores"))
_LABEL_VALUES = st.sampled_from(("a", "b", "4", "16", ""))
_TAINT_KEYS = ("dedicated", "node.kubernetes.io/unschedulable")
_TAINT_VALUES = st.sampled_from(("", "batch"))
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_PLENTY = {
    "cpu": "32",
    "memory": "64Gi",
    "pods": "110",
    "ephemeral-storage": "100Gi",
    "nvidia.com/gpu": "8",
}

_Drawn = TypeVar("_Drawn")


def _often(usual: _Drawn, else_one_of: SearchStrategy[_Drawn]) -> SearchStrategy[_Drawn]:
    """The usual value two times in three: a pod with every requirement at once fits nowhere."""
    return st.one_of(st.just(usual), st.just(usual), else_one_of)


def node_names() -> SearchStrategy[str]:
    """One of a few node names."""
    return st.sampled_from(NODE_NAMES)


def labels() -> SearchStrategy[dict[str, str]]:
    """Labels of a node, few of them numbers."""
    return st.dictionaries(_LABEL_KEYS, _LABEL_VALUES, max_size=3)


def taints() -> SearchStrategy[tuple[Taint, ...]]:
    """Taints of a node, mostly none."""
    taint = st.builds(
        Taint,
        key=st.sampled_from(_TAINT_KEYS),
        value=_TAINT_VALUES,
        effect=st.sampled_from(_EFFECTS),
    )
    return _often((), st.lists(taint, max_size=2).map(tuple))


def tolerations() -> SearchStrategy[tuple[Toleration, ...]]:
    """Tolerations of a pod, mostly none; an empty key with Equal among them."""
    toleration = st.builds(
        Toleration,
        key=st.sampled_from(("", *_TAINT_KEYS)),
        operator=st.sampled_from(("Exists", "Equal", "")),
        value=_TAINT_VALUES,
        effect=st.sampled_from(("", *_EFFECTS)),
    )
    return _often((), st.lists(toleration, max_size=2).map(tuple))


def allocatables() -> SearchStrategy[dict[str, str]]:
    """What a node offers, mostly plenty; else any of it may be missing, also the pod count."""
    amounts = {
        "cpu": st.sampled_from(("0", "1500m", "4")),
        "memory": st.sampled_from(("1Gi", "3Gi", "8Gi")),
        "pods": st.sampled_from(("0", "1", "3", "110")),
        "ephemeral-storage": st.just("10Gi"),
        "nvidia.com/gpu": st.sampled_from(("0", "2")),
    }
    return st.one_of(
        st.just(_PLENTY),
        st.fixed_dictionaries(amounts),
        st.fixed_dictionaries({}, optional=amounts),
    )


def node_states(names: SearchStrategy[str] | None = None) -> SearchStrategy[NodeState]:
    """What Kubernetes says of a node that is there.

    Args:
        names: of the nodes; by default one of `NODE_NAMES`.
    """
    return st.builds(
        NodeState,
        cluster=st.just(CLUSTER),
        node=node_names() if names is None else names,
        event=st.sampled_from(("added", "changed")),
        allocatable=allocatables(),
        labels=labels(),
        annotations=st.just({}),
        taints=taints(),
        unschedulable=_often(False, st.booleans()),
    )


def requirements() -> SearchStrategy[NodeRequirement]:
    """Expressions on labels, one in a few of them malformed."""
    values = st.one_of(_LABEL_VALUES, st.sampled_from(("-1", "no label value", "3")))
    return st.builds(
        NodeRequirement,
        key=st.one_of(_LABEL_KEYS, st.just("no/label/key")),
        operator=st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")),
        values=st.lists(values, max_size=2).map(tuple),
    )


def field_requirements() -> SearchStrategy[NodeRequirement]:
    """Expressions on fields, one in a few of them malformed."""
    return st.builds(
        NodeRequirement,
        key=st.sampled_from(("metadata.name", "metadata.name", "metadata.namespace")),
        operator=st.sampled_from(("In", "NotIn", "Exists")),
        values=st.lists(node_names(), min_size=1, max_size=2).map(tuple),
    )


def selector_terms() -> SearchStrategy[NodeSelectorTerm]:
    """Terms of a required node affinity, empty ones among them."""
    return st.builds(
        NodeSelectorTerm,
        match_expressions=st.lists(requirements(), max_size=2).map(tuple),
        match_fields=_often((), st.lists(field_requirements(), max_size=1).map(tuple)),
    )


def host_ports() -> SearchStrategy[tuple[HostPort, ...]]:
    """Host ports of a container, half of the time none."""
    port = st.builds(
        HostPort,
        port=st.sampled_from((80, 8080)),
        protocol=st.sampled_from(("TCP", "UDP")),
        host_ip=st.sampled_from(("", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::")),  # noqa: S104
    )
    return st.one_of(st.just(()), st.lists(port, max_size=2).map(tuple))


def resource_lists() -> SearchStrategy[dict[str, str]]:
    """Requests or limits of a container."""
    return st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from(("0", "100m", "1", "2")),
            "memory": st.sampled_from(("128Mi", "1Gi", "2Gi")),
            "ephemeral-storage": st.sampled_from(("0", "6Gi")),
            "nvidia.com/gpu": st.sampled_from(("0", "1")),
        },
    )


def containers(*, init: bool = False) -> SearchStrategy[Container]:
    """A container, or an init container, which may be a sidecar."""
    return st.builds(
        Container,
        requests=resource_lists(),
        limits=resource_lists(),
        restart_policy=st.sampled_from((None, "Always")) if init else st.none(),
        host_ports=host_ports(),
    )


def pods(uids: SearchStrategy[str] | None = None) -> SearchStrategy[Pod]:
    """Pods that wait for a node; their name is their uid.

    Args:
        uids: of the pods; by default one of `UIDS`, so draws collide.
    """

    return st.builds(
        bare_pod,
        uid=st.sampled_from(UIDS) if uids is None else uids,
        required_node=_often(None, node_names()),
        priority=st.sampled_from((None, 0, 5500, 9500)),
        containers=st.lists(containers(), min_size=1, max_size=2).map(tuple),
        init_containers=_often((), st.lists(containers(init=True), max_size=2).map(tuple)),
        overhead=_often({}, st.just({"cpu": "50m", "memory": "64Mi"})),
        node_selector=_often({}, st.dictionaries(_LABEL_KEYS, _LABEL_VALUES, max_size=2)),
        required_node_affinity=_often(None, st.lists(selector_terms(), max_size=2).map(tuple)),
        tolerations=tolerations(),
    )


# --- usage and policies -----------------------------------------------------------------------

_RESOURCES = ("cpu", "memory", "ephemeral-storage")
#: Resources that scores by requests may look at.
_REQUESTED = (*_RESOURCES, "nvidia.com/gpu")
_HUGE = (2**42 - 1, 2**42 + 1, 2**53 + 1, 2**62, 2**63 - 1)

Json = dict[str, Any]


def resource_maps(values: SearchStrategy[Any]) -> SearchStrategy[Json]:
    """A value for some of a few resources."""
    return st.dictionaries(st.sampled_from(_RESOURCES), values, max_size=3)


def usages() -> SearchStrategy[dict[str, int]]:
    """Amounts that a node or a pod uses."""
    return st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.one_of(st.integers(0, 40_000), st.sampled_from(_HUGE)),
            "memory": st.one_of(st.integers(0, 80 * GI), st.sampled_from(_HUGE)),
        },
    )


def metrics(names: SearchStrategy[str] | None = None) -> SearchStrategy[NodeMetric]:
    """Metrics of a node: fresh, old, without a time, of nothing, or removed."""
    entry = st.builds(
        AggregatedUsage,
        duration_ms=st.sampled_from((0, 300_000, 1_800_000)),
        usage=st.dictionaries(st.sampled_from(AGGREGATION_TYPES), usages(), max_size=2),
    )
    member = st.builds(
        PodMetric,
        namespace=st.just("default"),
        name=st.sampled_from(UIDS),
        usage=usages(),
        priority_class=st.sampled_from(("koord-prod", "koord-batch", "")),
    )
    return st.builds(
        NodeMetric,
        cluster=st.just(CLUSTER),
        node=node_names() if names is None else names,
        removed=st.sampled_from((False, False, False, True)),
        updated_at_ms=st.one_of(
            st.integers(-200, 60).map(at), st.integers(-200, 60).map(at), st.none()
        ),
        report_interval_ms=st.sampled_from((None, 0, 60_000)),
        usage=st.one_of(usages(), usages(), st.none()),
        system_usage=usages(),
        aggregated=st.lists(entry, max_size=2).map(tuple),
        pods=st.lists(member, max_size=3).map(tuple),
    )


def _thresholds_texts() -> SearchStrategy[str]:
    percent = st.sampled_from((0, 1, 50, 65, 100, 150, -5, 2**63 - 1, -(2**63)))
    part = st.one_of(resource_maps(percent), st.none(), st.just({"cpu": "65"}))
    whole = st.fixed_dictionaries(
        {},
        optional={
            "usageThresholds": part,
            "prodUsageThresholds": part,
            "aggregatedUsage": st.fixed_dictionaries(
                {},
                optional={
                    "usageThresholds": part,
                    "usageAggregationType": st.sampled_from(("p95", "avg", "p42", "", 5)),
                    "usageAggregatedDuration": st.sampled_from(("5m", "30m", "0s", "soon")),
                },
            ),
        },
    )
    return st.one_of(whole.map(json.dumps), st.sampled_from(("", "{", "null", "[]", '{"a":NaN}')))


def _allocatable_texts() -> SearchStrategy[str]:
    quantity = st.sampled_from(("8", "500m", "16Gi", "0", "-2", "9e18", 5, 5.5, None, "many"))
    return st.one_of(
        resource_maps(quantity).map(json.dumps), st.sampled_from(("", "{", "null", "[1]"))
    )


def node_annotations() -> SearchStrategy[dict[str, str]]:
    """Annotations of nodes that load-aware scheduling reads, mostly none."""
    written = st.fixed_dictionaries(
        {}, optional={THRESHOLDS: _thresholds_texts(), RAW_ALLOCATABLE: _allocatable_texts()}
    )
    return st.one_of(st.just({}), written)


def annotated_nodes(names: SearchStrategy[str] | None = None) -> SearchStrategy[NodeState]:
    """Nodes as in `node_states`, some of them with annotations."""
    return st.builds(
        lambda state, annotations: state.model_copy(update={"annotations": annotations}),
        node_states(names),
        node_annotations(),
    )


def _pod_annotations() -> SearchStrategy[dict[str, str]]:
    factor = st.sampled_from((0, 50, 120, -30, 2**63 - 1, -(2**63), None, 85.0))
    seconds = st.sampled_from(("0", "30", "600", "-1", "+5", "soon", "9" * 30))
    written = st.fixed_dictionaries(
        {},
        optional={
            SCALING_FACTORS: st.one_of(
                resource_maps(factor).map(json.dumps), st.sampled_from(("", "{}", "null", "["))
            ),
            AFTER_SCHEDULED: seconds,
            AFTER_INITIALIZED: seconds,
        },
    )
    return st.one_of(st.just({}), st.just({}), written)


def loading_pods(uids: SearchStrategy[str] | None = None) -> SearchStrategy[Pod]:
    """Pods as in `pods`, some of them with annotations, classes, or limits beyond any node."""
    return st.builds(
        _loading,
        pods(uids),
        annotations=_pod_annotations(),
        labels=st.sampled_from(
            ({}, {}, {"koordinator.sh/priority-class": "koord-batch"}, {"koordinator.sh/qosClass": "BE"})
        ),
        scheduled_at_ms=st.one_of(st.none(), st.integers(-100, 60).map(at)),
        initialized_at_ms=st.one_of(st.none(), st.integers(-100, 60).map(at)),
        limit=st.sampled_from((None, None, None, "8Ei")),
    )  # fmt: skip


def _loading(of: Pod, limit: str | None, **fields: Any) -> Pod:
    if limit is not None:
        first, *others = of.containers
        limited = first.model_copy(update={"limits": {**first.limits, "memory": limit}})
        fields["containers"] = (limited, *others)
    return of.model_copy(update=fields)


def load_aware_arguments() -> SearchStrategy[LoadAwareSchedulingArgs]:
    """Arguments of the load-aware plugin."""
    percents = resource_maps(st.sampled_from((0, 30, 65, 100)))
    whole = st.fixed_dictionaries(
        {},
        optional={
            "filterExpiredNodeMetrics": st.booleans(),
            "enableScheduleWhenNodeMetricsExpired": st.booleans(),
            "nodeMetricExpirationSeconds": st.sampled_from((1, 60, 180)),
            "usageThresholds": percents,
            "prodUsageThresholds": resource_maps(st.sampled_from((0, 40, 150, -1))),
            "prodUsageIncludeSys": st.booleans(),
            "scoreAccordingProdUsage": st.booleans(),
            "dominantResourceWeight": st.sampled_from((0, 1, 100)),
            "resourceWeights": st.sampled_from(({}, {"cpu": 1}, {"cpu": 100, "memory": 7})),
            "estimatedScalingFactors": st.sampled_from(({}, {"cpu": 100, "memory": 100})),
            "estimatedSecondsAfterPodScheduled": st.sampled_from((0, 60)),
            "estimatedSecondsAfterInitialized": st.sampled_from((0, 60)),
            "allowCustomizeEstimation": st.booleans(),
            "supportedResources": st.sampled_from(([], ["ephemeral-storage"])),
            "aggregated": st.fixed_dictionaries(
                {},
                optional={
                    "usageThresholds": percents,
                    "usageAggregationType": st.sampled_from(("p95", "avg")),
                    "usageAggregatedDuration": st.sampled_from(("5m", "10m")),
                    "scoreAggregationType": st.sampled_from(("p95", "p50")),
                    "scoreAggregatedDuration": st.sampled_from(("5m", "0s")),
                },
            ),
        },
    )
    return whole.map(load_aware_args)


def limits_aware_arguments() -> SearchStrategy[NodeResourceLimitsAwareArgs]:
    """Arguments of the resource-limit-aware score."""
    weights = st.dictionaries(st.sampled_from(_RESOURCES), st.integers(1, 100), min_size=1)
    defaults = resource_maps(st.sampled_from(("allocatable", "request", "500m", "1Gi", "8Ei")))
    return st.builds(_limits_aware, weights, defaults)


def _limits_aware(weights: dict[str, int], defaults: dict[str, str]) -> NodeResourceLimitsAwareArgs:
    return NodeResourceLimitsAwareArgs.model_validate(
        {
            "resources": [{"name": name, "weight": weight} for name, weight in weights.items()],
            "defaultLimit": {name: text for name, text in defaults.items() if name in weights},
        }
    )


def scoring_strategies() -> SearchStrategy[ScoringStrategy]:
    """Strategies of the score by requests."""
    weights = st.dictionaries(st.sampled_from(_REQUESTED), st.integers(1, 100), min_size=1)
    return weights.map(
        lambda by_name: ScoringStrategy.model_validate(
            {"resources": [{"name": name, "weight": weight} for name, weight in by_name.items()]}
        )
    )


def balanced_arguments() -> SearchStrategy[NodeResourcesBalancedAllocationArgs]:
    """Arguments of the score by how evenly resources are requested."""
    names = st.lists(st.sampled_from(_REQUESTED), unique=True, min_size=1)
    return names.map(
        lambda resources: NodeResourcesBalancedAllocationArgs.model_validate(
            {"resources": [{"name": name} for name in resources]}
        )
    )


def policies() -> SearchStrategy[Policy]:
    """Policies that enable, order and weigh plugins in every way."""
    filters = st.lists(st.sampled_from(BUILT_IN.filter), unique=True)
    scores = st.dictionaries(st.sampled_from(BUILT_IN.score), st.sampled_from((1, 3, 1_000_000)))
    chosen = st.builds(
        lambda filters, scores: PluginChoice(
            filter=tuple(EnabledPlugin(name=name) for name in filters),
            score=tuple(ScorePlugin(name=name, weight=weight) for name, weight in scores.items()),
        ),
        filters,
        scores,
    )
    return st.builds(
        Policy,
        plugins=st.one_of(st.just(PluginChoice()), chosen),
        load_aware=load_aware_arguments(),
        resource_limits=limits_aware_arguments(),
        resources_fit=scoring_strategies().map(
            lambda strategy: NodeResourcesFitArgs(scoring_strategy=strategy)
        ),
        balanced_allocation=balanced_arguments(),
    )


# --- histories ----------------------------------------------------------------------------------


Event = NodeState | PodLifecycle


def held_pods(pods: SearchStrategy[Pod]) -> SearchStrategy[PodLifecycle]:
    """Pods that take room on nodes."""
    return st.builds(lifecycle, st.just("seen"), pods, node_names())


def gone_pods() -> SearchStrategy[PodLifecycle]:
    """Pods that leave the nodes that hold them, if any does."""
    return st.sampled_from(UIDS).map(lambda uid: lifecycle("deleted", bare_pod(uid)))


def histories() -> SearchStrategy[list[Event]]:
    """Nodes that appear, then a few events, mostly pods that take room."""
    placed = held_pods(pods())
    event: SearchStrategy[Event] = st.one_of(
        node_states(),
        placed,
        placed,
        node_names().map(removed_node),
        gone_pods(),
    )
    appear: SearchStrategy[list[Event]] = st.lists(node_states(), min_size=1, max_size=5)
    return st.tuples(appear, st.lists(event, max_size=10)).map(lambda parts: parts[0] + parts[1])


def wanted_kinds() -> SearchStrategy[list[Kind]]:
    """Kinds of pods to filter for."""
    return st.lists(pods().map(kind_of), min_size=1, max_size=3)
