"""The node metric of a node's windows, as published to `node-metrics`.

Averages cover the average window before the newest sample, even if there are few samples. A percentile
window is reported for a resource if the samples of the resource span at least half of the window. So
percentiles of different resources can belong to different times.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from schemas.messages.metrics import AGGREGATION_TYPES
from schemas.messages.usage import NodeCollectPolicy
from streams.aggregate.lifetimes import MemberLifetimes
from streams.aggregate.node import NodeWindows
from streams.aggregate.percentile import UNKNOWN, compute_spans, summarize
from streams.aggregate.samples import SampleFigures
from streams.risk.lifetimes import PARTS

_NAMES = tuple(name for name in AGGREGATION_TYPES if name != "avg")
#: Names of the results of `summarize`.
_KINDS = ("avg", *_NAMES)
_PERCENTS = tuple(int(name.removeprefix("p")) for name in _NAMES)


def build_metric(
    node: NodeWindows,
    policy: NodeCollectPolicy,
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
    # Windows that begin with the same sample have the same figures.
    summaries = {
        start: summarize(node.samples.figures(start), _PERCENTS) for start in {*starts.values()}
    }
    average_start = starts[policy.average_ms]
    averages, resources = summaries[average_start], node.samples.resources
    aggregated, aggregated_system = [], []
    for duration_ms in policy.durations_ms:
        start = starts[duration_ms]
        window_usage, window_system = _aggregate(node, start, duration_ms, summaries[start])
        if window_usage:
            aggregated.append({"duration_ms": duration_ms, "usage": window_usage})
        if window_system:
            aggregated_system.append({"duration_ms": duration_ms, "usage": window_system})
    pods, applications, members = [], [], []
    for member, mean in node.pods.compute_means(newest_ms - policy.average_ms, resources):
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
        "usage": _name_means(resources, averages[0::2]),
        "system_usage": _name_means(resources, averages[1::2]),
        "aggregated": aggregated,
        "aggregated_system": aggregated_system,
        "pods": pods,
        "host_applications": applications,
        "samples": len(node.samples) - average_start,
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


def _name_means(resources: Sequence[str], columns: Sequence[list[int]]) -> dict[str, int]:
    return {name: column[0] for name, column in zip(resources, columns, strict=True) if column}


def _aggregate(
    node: NodeWindows, start: int, duration_ms: int, columns: Sequence[list[int]]
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """Return the figures of one window by kind and resource, for the node and for its system part.

    Resources with too few samples are left out.

    Args:
        node: the windows of the node.
        start: index of the window's first sample.
        duration_ms: length of the window.
        columns: result of `summarize` for the window's samples.
    """
    usage: dict[str, dict[str, int]] = {}
    system: dict[str, dict[str, int]] = {}
    spans = compute_spans(node.samples.times[start:], node.samples.figures(start))
    for index, (column, span_ms) in enumerate(zip(columns, spans, strict=True)):
        if column and 2 * span_ms >= duration_ms:
            part, resource = (system if index % 2 else usage), node.samples.resources[index // 2]
            for kind, value in zip(_KINDS, column, strict=True):
                part.setdefault(kind, {})[resource] = value
    return usage, system
