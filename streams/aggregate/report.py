"""The node metric of a node's windows, as published to `node-metrics`.

Averages cover the average window before the newest sample, even if there are few samples. A percentile
window is reported for a resource if the samples of the resource span at least half of the window. So
percentiles of different resources can belong to different times.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from schemas.messages.metrics import AGGREGATION_TYPES
from streams.aggregate.collect_policies import CollectRules
from streams.aggregate.lifetimes import MemberLifetimes
from streams.aggregate.node import NodeWindows
from streams.aggregate.percentile import (
    UNKNOWN,
    Figures,
    compute_means,
    compute_percentiles,
    compute_spans,
    summarize,
)
from streams.aggregate.samples import SampleFigures
from streams.risk.lifetimes import PARTS

_NAMES = tuple(name for name in AGGREGATION_TYPES if name != "avg")
#: Names of the lines of `summarize`.
_LINES = ("avg", *_NAMES)
_PERCENTS = tuple(int(name.removeprefix("p")) for name in _NAMES)


def build_metric(
    node: NodeWindows,
    policy: CollectRules,
    newest: SampleFigures,
    lifetimes: MemberLifetimes | None,
) -> dict[str, Any]:
    """Return the fields of a `NodeMetric`.

    Args:
        node: the windows of the node.
        policy: rules of the node's pool.
        newest: the newest sample.
        lifetimes: lifetimes of the pods, if they were extended since the last report.
    """
    newest_ms = int(node.samples.times[-1])
    starts = {
        duration_ms: node.samples.find_index(newest_ms - duration_ms)
        for duration_ms in {policy.average_ms, *policy.durations_ms}
    }
    # Windows that begin with the same sample have the same lines.
    lines_from = {
        start: summarize(node.samples.figures(start), _PERCENTS) for start in {*starts.values()}
    }
    figures = node.samples.figures(starts[policy.average_ms])
    lines = lines_from[starts[policy.average_ms]]
    averages = compute_means(figures) if lines is None else lines[0]
    usage, system = _split_system(averages, node.samples.resources)
    aggregated, aggregated_system = [], []
    for duration_ms in policy.durations_ms:
        start = starts[duration_ms]
        window_usage, window_system = _aggregate(
            node, newest_ms, duration_ms, start, lines_from[start]
        )
        if window_usage:
            aggregated.append({"duration_ms": duration_ms, "usage": window_usage})
        if window_system:
            aggregated_system.append({"duration_ms": duration_ms, "usage": window_system})
    pods, applications, members = [], [], []
    for member, mean in node.pods.compute_means(
        newest_ms - policy.average_ms, node.samples.resources
    ):
        namespace, name, _, priority_class = member
        fields: dict[str, Any] = {"name": name, "priority_class": priority_class, "usage": mean}
        if namespace:
            fields["namespace"] = namespace
            pods.append(fields)
            members.append((node.pods.members[member], mean))
        else:
            applications.append(fields)
    facts = dict(newest.facts)
    columns = None if lifetimes is None else _build_lifetime_columns(lifetimes, members)
    if columns is not None:
        facts["lifetimes"] = columns
    return {
        "schema_version": 1,
        "cluster": node.cluster,
        "node": node.name,
        "removed": False,
        "updated_at_ms": newest_ms,
        "report_interval_ms": policy.report_ms,
        "usage": usage,
        "system_usage": system,
        "aggregated": aggregated,
        "aggregated_system": aggregated_system,
        "pods": pods,
        "host_applications": applications,
        "samples": len(figures),
        **facts,
    }


def _build_lifetime_columns(
    lifetimes: MemberLifetimes, pods: Sequence[tuple[int, dict[str, int]]]
) -> dict[str, Any] | None:
    """Return the fields of `PodLifetimes`; None if no pod has a lifetime.

    Args:
        lifetimes: lifetimes of the node's members.
        pods: number of each pod, and its usage in the window; resources without usage are left out.
    """
    lifetimes_and_usage = [(lifetimes.by_number.get(number), usage) for number, usage in pods]
    means, deviations = {}, {}
    for index, name in sorted(enumerate(lifetimes.resources), key=itemgetter(1)):
        pairs = [
            (UNKNOWN, UNKNOWN)
            if lifetime is None or name not in usage
            else lifetime.usage[2 * index : 2 * index + 2]
            for lifetime, usage in lifetimes_and_usage
        ]
        if any(mean >= 0 for mean, _ in pairs):
            means[name] = [_to_units(mean) for mean, _ in pairs]
            deviations[name] = [_to_units(deviation) for _, deviation in pairs]
    if not means:
        return None
    minutes = [0 if lifetime is None else lifetime.minutes for lifetime, _ in lifetimes_and_usage]
    return {"minutes": minutes, "mean": means, "deviation": deviations}


def _to_units(parts: int) -> int:
    return UNKNOWN if parts < 0 else parts // PARTS


_Usage = dict[str, dict[str, int]]


def _aggregate(
    node: NodeWindows,
    newest_ms: int,
    duration_ms: int,
    start: int,
    lines: Sequence[Sequence[int]] | None,
) -> tuple[_Usage, _Usage]:
    """Return the figures of one window for the node and its system part; empty if the samples are too few.

    Args:
        node: the windows of the node.
        newest_ms: time of the newest sample.
        duration_ms: length of the window.
        start: index of the window's first sample.
        lines: result of `summarize` for the window's samples.
    """
    resources = node.samples.resources
    if lines is not None:
        if 2 * (newest_ms - int(node.samples.times[start])) < duration_ms:
            return {}, {}
        column_of = [(name, 2 * index) for index, name in enumerate(resources)]
        named_lines = list(zip(_LINES, lines, strict=True))
        return (
            {
                kind: {name: line[column] for name, column in column_of}
                for kind, line in named_lines
            },
            {
                kind: {name: line[column + 1] for name, column in column_of}
                for kind, line in named_lines
            },
        )
    figures: Figures = node.samples.figures(start)
    old_enough = [
        2 * span >= duration_ms for span in compute_spans(node.samples.times[start:], figures)
    ]
    if not any(old_enough):
        return {}, {}
    ranks = compute_percentiles(figures, _PERCENTS)
    columns: dict[str, list[int | None]] = {
        "avg": compute_means(figures),
        **{
            name: [None if rank is None else rank[index] for rank in ranks]
            for index, name in enumerate(_NAMES)
        },
    }
    usage_by_kind: _Usage = {}
    system_by_kind: _Usage = {}
    for name, values in columns.items():
        reported = [value if old else None for value, old in zip(values, old_enough, strict=True)]
        usage, system = _split_system(reported, resources)
        if usage:
            usage_by_kind[name] = usage
        if system:
            system_by_kind[name] = system
    return usage_by_kind, system_by_kind


def _split_system(
    values: Sequence[int | None], resources: list[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Split values of a window's columns into usage and system part, each by resource."""
    usage, system = (
        {
            resource: value
            for resource, value in zip(resources, values[half::2], strict=True)
            if value is not None
        }
        for half in (0, 1)
    )
    return usage, system
