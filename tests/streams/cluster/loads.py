"""Metrics, annotations and policies for property tests, small so that they often meet.

Annotations are what people write into them: broken JSON, numbers far beyond any node, negative ones.
Amounts are mostly those of the nodes in `strategies`, and now and then at the edge of 64 bits.
"""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from schemas.messages.metrics import AGGREGATION_TYPES, AggregatedUsage, NodeMetric, PodMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod
from schemas.policy import LoadAwareSchedulingArgs, Policy, load_aware_args
from schemas.policy.sections.plugins import BUILT_IN, EnabledPlugin, PluginChoice, ScorePlugin
from schemas.policy.sections.resource_limits import NodeResourceLimitsAwareArgs
from schemas.policy.sections.resources_fit import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ScoringStrategy,
)
from tests.streams.cluster.builders import (
    AFTER_INITIALIZED,
    AFTER_SCHEDULED,
    CLUSTER,
    GI,
    RAW_ALLOCATABLE,
    SCALING_FACTORS,
    THRESHOLDS,
    at,
)
from tests.streams.cluster.strategies import UIDS, node_names, node_states, pods

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
        lambda given: ScoringStrategy.model_validate(
            {"resources": [{"name": name, "weight": weight} for name, weight in given.items()]}
        )
    )


def balanced_arguments() -> SearchStrategy[NodeResourcesBalancedAllocationArgs]:
    """Arguments of the score by how evenly resources are requested."""
    names = st.lists(st.sampled_from(_REQUESTED), unique=True, min_size=1)
    return names.map(
        lambda given: NodeResourcesBalancedAllocationArgs.model_validate(
            {"resources": [{"name": name} for name in given]}
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
