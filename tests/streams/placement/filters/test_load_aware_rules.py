"""Random nodes and pods: both ways of asking the plugins, and the rules read plainly, say the same."""

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.policy import Compat, LoadAwareSchedulingArgs
from streams.inventory.node import Node
from streams.placement.filters.load_aware import LoadAwareFilter
from streams.placement.scores.load_aware import LoadAwareScore
from streams.pods.kind import Kind, kind_of
from streams.usage.estimate import Estimator
from streams.usage.rounding import compute_percent
from streams.usage.thresholds import read_node_thresholds
from streams.usage.vectors import UNKNOWN, add
from tests.streams.builders import at, inventory_node, load_args, metric, node, pod
from tests.streams.cluster.oracle import refresh_all
from tests.streams.strategies import annotated_nodes, load_aware_arguments, loading_pods, metrics

EXPIRED = "node(s) nodeMetric expired"


def _plain_reason(args: LoadAwareSchedulingArgs, here: Node, kind: Kind, now_ms: int) -> str | None:
    """Koordinator's filter, step by step."""
    usage, estimator = here.usage, here.usage.estimator
    if kind.daemon:
        return None
    state = here.state
    limit = read_node_thresholds({} if state is None else state.annotations, estimator.thresholds)
    prod = estimator.to_vector(limit.prod)
    word = ""
    by_prod = kind.prod and any(prod)
    if by_prod:
        thresholds = prod
    elif limit.aggregated is not None:
        thresholds = estimator.to_vector(limit.aggregated.thresholds)
        word = "aggregated "
    else:
        thresholds = estimator.to_vector(limit.plain)
    if not any(thresholds) or usage.metric is None:
        return None
    if args.filter_expired_node_metrics and usage.is_expired(now_ms):
        return None if args.enable_schedule_when_node_metrics_expired else EXPIRED
    if usage.vectors is None or usage.vectors.node is None:
        return None
    if by_prod:
        expected = usage.compute_expected_prod()
    elif limit.aggregated is not None:
        expected = usage.compute_expected(
            limit.aggregated.aggregation, limit.aggregated.duration_ms
        )
    else:
        expected = usage.compute_expected(None, 0)
    used, expected = expected, add(expected, estimator.estimate(kind).expected)
    for index, resource in enumerate(estimator.resources):
        total, threshold = usage.profile.total[index], thresholds[index]
        if (
            threshold
            and total > 0
            and used[index] != UNKNOWN
            and compute_percent(expected[index], total) > threshold
        ):
            return f"node(s) {resource} {word}usage exceed threshold"
    return None


def _left_percent(capacity: int, used: int) -> int:
    """Truncated percentage of the capacity that is left; 0 if there is none or it is over-used."""
    return 0 if capacity <= 0 or used > capacity else (capacity - used) * 100 // capacity


def _plain_score(args: LoadAwareSchedulingArgs, here: Node, kind: Kind, now_ms: int) -> int:
    """Koordinator's score, step by step."""
    usage, estimator = here.usage, here.usage.estimator
    if usage.is_expired(now_ms) or usage.vectors is None or usage.vectors.node is None:
        return 0
    statistic = args.aggregated
    if args.score_according_prod_usage and kind.prod:
        expected = usage.compute_expected_prod()
    elif statistic is not None and statistic.score_aggregation_type:
        expected = usage.compute_expected(
            statistic.score_aggregation_type, statistic.score_aggregated_duration_ms
        )
    else:
        expected = usage.compute_expected(None, 0)
    used = add(expected, estimator.estimate(kind).expected)
    free = {
        resource: 0 if amount_known == UNKNOWN else _left_percent(total, amount)
        for resource, total, amount, amount_known in zip(
            estimator.resources, usage.profile.total, used, expected, strict=True
        )
    }
    weights = args.resource_weights
    total_weight = sum(weights.values()) + args.dominant_resource_weight
    if not total_weight:
        return 0
    weighted = sum(weight * free[resource] for resource, weight in weights.items())
    dominant = args.dominant_resource_weight * min(free.values())
    return min((weighted + dominant) // total_weight, 100)


_NODES = st.lists(
    st.tuples(
        annotated_nodes(),
        st.one_of(st.none(), metrics()),
        st.lists(loading_pods(), max_size=3),
    ),
    min_size=1,
    max_size=5,
)


@given(
    load_aware_arguments(),
    _NODES,
    st.lists(loading_pods().map(kind_of), min_size=1, max_size=3),
    st.sampled_from((0, 59, 180)),
    st.sampled_from(("loadstream", "koordinator")),
)
@settings(max_examples=120)
def test_masks_reasons_and_scores_are_those_of_the_plain_rules(
    args: LoadAwareSchedulingArgs,
    drawn: list[Any],
    kinds: list[Kind],
    seconds: int,
    compat: Compat,
) -> None:
    estimator = Estimator(args, compat)
    nodes = []
    for state, report, held in drawn:
        nodes.append(inventory_node(state, *held, estimator=estimator, metric=report, at_ms=at(0)))
    now_ms = at(seconds)
    load_filter, load_score = LoadAwareFilter(estimator), LoadAwareScore(estimator)
    refresh_all(load_filter, nodes, now_ms)
    refresh_all(load_score, nodes, now_ms)
    for kind in kinds:
        prepared_kind = load_filter.prepare(kind)
        mask = load_filter.mask(prepared_kind)
        reasons = [load_filter.reason(prepared_kind, row) for row in range(len(nodes))]
        assert reasons == [_plain_reason(args, here, kind, now_ms) for here in nodes]
        passing = [reason is None for reason in reasons]
        assert (passing if mask is None else mask.tolist()) == passing
        prepared = load_score.prepare(kind)
        scores = load_score.scores(prepared)
        assert scores.dtype == np.int32
        assert scores.tolist() == [_plain_score(args, here, kind, now_ms) for here in nodes]
        assert [load_score.score(prepared, row) for row in range(len(nodes))] == scores.tolist()


figures = st.one_of(st.integers(0, 2**20), st.integers(2**42 - 2**12, 2**42 + 2), st.integers(0, 2**63 - 1))  # fmt: skip


@given(st.lists(st.tuples(figures, figures), min_size=1, max_size=20))
@example([(2**42, 0), (2**42, 1), (2**42 - 1, 3)])
@example([(100, 0), (100, 99), (100, 100), (3, 1), (10_000, 4499), (0, 0), (2**63 - 1, 0)])
@example([(capacity, capacity * percent // 100) for capacity in (3, 7, 101) for percent in (1, 33)])
def test_the_product_with_a_factor_cuts_off_where_the_division_does(
    drawn: list[tuple[int, int]],
) -> None:
    args = load_args(resourceWeights={"memory": 1})
    estimator = Estimator(args)
    nodes = []
    for capacity, used in drawn:
        state, report = node(memory=str(capacity)), metric(memory=used)
        nodes.append(inventory_node(state, estimator=estimator, metric=report))
    plugin = LoadAwareScore(estimator)
    refresh_all(plugin, nodes, at(0))
    prepared = plugin.prepare(kind_of(pod(memory="1", cpu="1")))
    expected = [_left_percent(capacity, used + 1) for capacity, used in drawn]
    assert plugin.scores(prepared).tolist() == expected
