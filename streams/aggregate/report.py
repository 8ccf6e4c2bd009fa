"""The node metric of a node's windows: what `node-metrics` carries.

Averages are over the average window, up to and with the newest sample; they are given however few
samples there are. A percentile window is given for a resource once its samples span at least half
of it, so that the first minutes of a node do not pass for half an hour. Every resource is on its
own: its p95 is not of the same instant as that of another one.

Pressure is that of the newest sample, and so is the source. The kernel has averaged pressure over
10, 60 and 300 seconds already, so no window keeps it, and no row.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from schemas.messages.metrics import AGGREGATION_TYPES
from streams.aggregate.collect import CollectRules
from streams.aggregate.lifetimes import MemberLifetimes
from streams.aggregate.node import NodeWindows
from streams.aggregate.percentile import UNKNOWN, Figures, means, percentiles, spans, summary
from streams.aggregate.reading import SampleFigures
from streams.risk.lifetimes import PARTS

_NAMES = tuple(name for name in AGGREGATION_TYPES if name != "avg")
#: What lines of a summary are.
_LINES = ("avg", *_NAMES)
_PERCENTS = tuple(int(name.removeprefix("p")) for name in _NAMES)


def report(
    node: NodeWindows,
    policy: CollectRules,
    newest: SampleFigures | None = None,
    lifetimes: MemberLifetimes | None = None,
) -> dict[str, Any]:
    """Return the fields of a `NodeMetric`.

    Args:
        node: the windows of the node.
        policy: of the node's pool.
        newest: the newest sample, whose pressure, source and definition of memory are reported.
        lifetimes: of the pods, if they were extended since the last report.
    """
    newest_ms = int(node.samples.times[-1])
    starts = {
        duration_ms: node.samples.index(newest_ms - duration_ms)
        for duration_ms in {policy.average_ms, *policy.durations_ms}
    }
    # Windows often begin with the same sample: of a young node, and the shortest with the average's.
    lines_from = {
        start: summary(node.samples.figures(start), _PERCENTS) for start in {*starts.values()}
    }
    figures = node.samples.figures(starts[policy.average_ms])
    lines = lines_from[starts[policy.average_ms]]
    averages = means(figures) if lines is None else lines[0]
    usage, system = _halves(averages, node.samples.resources)
    aggregated, aggregated_system = [], []
    for duration_ms in policy.durations_ms:
        start = starts[duration_ms]
        whole, part = _aggregate(node, newest_ms, duration_ms, start, lines_from[start])
        if whole:
            aggregated.append({"duration_ms": duration_ms, "usage": whole})
        if part:
            aggregated_system.append({"duration_ms": duration_ms, "usage": part})
    pods, applications, members = [], [], []
    for member, mean in node.pods.means(newest_ms - policy.average_ms, node.samples.resources):
        namespace, name, _, priority_class = member
        fields: dict[str, Any] = {"name": name, "priority_class": priority_class, "usage": mean}
        if namespace:
            fields["namespace"] = namespace
            pods.append(fields)
            members.append((node.pods.members[member], mean))
        else:
            applications.append(fields)
    columns = None if lifetimes is None else _lifetime_columns(lifetimes, members)
    optional: dict[str, Any] = {"lifetimes": columns}
    if newest is not None:
        optional |= {
            "pressure": newest.pressure,
            "source": newest.source,
            "memory_is": newest.memory_is,
        }
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
        **{name: said for name, said in optional.items() if said is not None},
    }


def _lifetime_columns(
    lifetimes: MemberLifetimes, pods: Sequence[tuple[int, dict[str, int]]]
) -> dict[str, Any] | None:
    """Return fields of `PodLifetimes`; None: no pod has a lifetime.

    Args:
        lifetimes: of the members of the node.
        pods: numbers of the pods, and their usage in the window; lifetimes are reported of
            resources that both have.
    """
    known = [(lifetimes.of.get(number), usage) for number, usage in pods]
    means, deviations = {}, {}
    for index, name in sorted(enumerate(lifetimes.resources), key=itemgetter(1)):
        pairs = [
            (UNKNOWN, UNKNOWN)
            if lifetime is None or name not in usage
            else lifetime.usage[2 * index : 2 * index + 2]
            for lifetime, usage in known
        ]
        if any(mean >= 0 for mean, _ in pairs):
            means[name] = [_in_units(mean) for mean, _ in pairs]
            deviations[name] = [_in_units(deviation) for _, deviation in pairs]
    if not means:
        return None
    minutes = [0 if lifetime is None else lifetime.minutes for lifetime, _ in known]
    return {"minutes": minutes, "mean": means, "deviation": deviations}


def _in_units(parts: int) -> int:
    return UNKNOWN if parts < 0 else parts // PARTS


_Usage = dict[str, dict[str, int]]


def _aggregate(
    node: NodeWindows,
    newest_ms: int,
    duration_ms: int,
    start: int,
    lines: Sequence[Sequence[int]] | None,
) -> tuple[_Usage, _Usage]:
    """Figures of one window for the node and for its system part; empty where they are too young.

    `lines`: the summary of the samples from index `start` on, with which the window begins.
    """
    resources = node.samples.resources
    if lines is not None:
        if 2 * (newest_ms - int(node.samples.times[start])) < duration_ms:
            return {}, {}
        places = [(name, 2 * index) for index, name in enumerate(resources)]
        named = list(zip(_LINES, lines, strict=True))
        return (
            {kind: {name: line[place] for name, place in places} for kind, line in named},
            {kind: {name: line[place + 1] for name, place in places} for kind, line in named},
        )
    figures: Figures = node.samples.figures(start)
    old_enough = [2 * span >= duration_ms for span in spans(node.samples.times[start:], figures)]
    if not any(old_enough):
        return {}, {}
    ranks = percentiles(figures, _PERCENTS)
    columns: dict[str, list[int | None]] = {
        "avg": means(figures),
        **{
            name: [None if rank is None else rank[index] for rank in ranks]
            for index, name in enumerate(_NAMES)
        },
    }
    whole: _Usage = {}
    part: _Usage = {}
    for name, values in columns.items():
        given = [value if old else None for value, old in zip(values, old_enough, strict=True)]
        usage, system = _halves(given, resources)
        if usage:
            whole[name] = usage
        if system:
            part[name] = system
    return whole, part


def _halves(
    values: Sequence[int | None], resources: list[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Usage and system part by resource, of columns in the order of the window's."""
    usage, system = (
        {
            resource: value
            for resource, value in zip(resources, values[half::2], strict=True)
            if value is not None
        }
        for half in (0, 1)
    )
    return usage, system
