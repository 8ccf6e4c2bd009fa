"""The same figures, computed as the rules read, from a plain list of samples.

No arrays, no windows that slide, nothing that is kept from one report to the next: slow and easy to
check by eye.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from schemas.messages.metrics import AggregatedUsage, HostApplicationMetric, NodeMetric, PodMetric
from schemas.messages.usage import MemoryDefinition, MemoryReadings, NodeCollectPolicy, NodeUsage
from streams.aggregate.collect_policies import PoolRules

Amounts = dict[str, int]


def amounts(usage: Amounts, memory: MemoryReadings | None, policy: NodeCollectPolicy) -> Amounts:
    """Usage with the memory reading that the policy picks."""
    picked = getattr(memory, policy.memory_field) if memory else None
    return dict(usage) if picked is None else {**usage, "memory": picked}


@dataclass
class Point:
    """The figures of one sample."""

    at_ms: int
    usage: Amounts
    system: Amounts
    pods: list[tuple[tuple[str, str], str, str, Amounts]]
    """Name, uid, class, amounts; the namespace of a host application is empty."""


def point(sample: NodeUsage, policy: NodeCollectPolicy) -> Point:
    """The figures of one sample."""
    usage = amounts(sample.usage, sample.memory, policy)
    pods = [
        ((p.namespace, p.name), p.uid, p.priority_class, amounts(p.usage, p.memory, policy))
        for p in sample.pods
    ] + [
        (("", a.name), "", a.priority_class, amounts(a.usage, a.memory, policy))
        for a in sample.host_applications
    ]
    system = sample.system_usage
    if system is None:
        system = {
            resource: max(amount - sum(used.get(resource, 0) for *_, used in pods), 0)
            for resource, amount in usage.items()
        }
    return Point(sample.sampled_at_ms, usage, dict(system), pods)


@dataclass
class NaiveNode:
    """Samples of one node."""

    points: list[Point] = field(default_factory=list)
    reported_at_ms: int | None = None

    def take(self, sample: NodeUsage, collecting: PoolRules) -> NodeMetric | None:
        """Take in a sample; answers with the metric that it causes."""
        policy = collecting.get_rules(sample.pool)
        new = point(sample, policy)
        if self.points:
            newest_ms = max(point.at_ms for point in self.points)
            too_old = new.at_ms < newest_ms - collecting.horizon_ms
            if too_old or new.at_ms in {point.at_ms for point in self.points}:
                return None
        self.points.append(new)
        if self.reported_at_ms is None:
            self.reported_at_ms = new.at_ms
        newest_ms = max(point.at_ms for point in self.points)
        if new.at_ms != newest_ms or new.at_ms < self.reported_at_ms + policy.report_ms:
            return None
        self.reported_at_ms = new.at_ms
        return self._metric(sample, policy, newest_ms)

    def change(self, before: PoolRules) -> None:
        """Apply new windows: drop points and pods that the old windows no longer contain."""
        newest_ms = max((point.at_ms for point in self.points), default=0)
        horizon_ms, average_ms = before.horizon_ms, before.average_horizon_ms
        self.points = [point for point in self.points if point.at_ms >= newest_ms - horizon_ms]
        for point in self.points:
            if point.at_ms < newest_ms - average_ms:
                point.pods = []

    def _since(self, time_ms: int) -> list[Point]:
        points = [point for point in self.points if point.at_ms >= time_ms]
        return sorted(points, key=lambda point: point.at_ms)

    def _metric(self, sample: NodeUsage, policy: NodeCollectPolicy, newest_ms: int) -> NodeMetric:
        recent = self._since(newest_ms - policy.average_ms)
        pods = list(_pods(recent))
        windows = {ms: self._since(newest_ms - ms) for ms in policy.durations_ms}
        return NodeMetric(
            cluster=sample.cluster,
            node=sample.node,
            updated_at_ms=newest_ms,
            report_interval_ms=policy.report_ms,
            usage=_means(point.usage for point in recent),
            system_usage=_means(point.system for point in recent),
            aggregated=tuple(_aggregates(windows, "usage")),
            aggregated_system=tuple(_aggregates(windows, "system")),
            pods=tuple(
                PodMetric(namespace=namespace, name=name, usage=usage, priority_class=of)
                for namespace, name, of, usage in pods
                if namespace
            ),
            host_applications=tuple(
                HostApplicationMetric(name=name, usage=usage, priority_class=of)
                for namespace, name, of, usage in pods
                if not namespace
            ),
            samples=len(recent),
            memory_is=_memory_is(sample, policy),
            source=sample.source,
        )


def _memory_is(sample: NodeUsage, policy: NodeCollectPolicy) -> MemoryDefinition | None:
    """The memory definition of the newest sample; earlier samples do not matter."""
    picked = getattr(sample.memory, policy.memory_field) if sample.memory else None
    with_cache = policy.memory_field == "usage_with_page_cache_bytes"
    return "withPageCache" if picked is not None and with_cache else sample.memory_is


def _values(maps: Iterable[Amounts]) -> dict[str, list[int]]:
    values: dict[str, list[int]] = {}
    for usage in maps:
        for resource, amount in usage.items():
            values.setdefault(resource, []).append(amount)
    return values


def _means(maps: Iterable[Amounts]) -> Amounts:
    return {name: sum(values) // len(values) for name, values in _values(maps).items()}


def _aggregates(windows: dict[int, list[Point]], part: str) -> Iterator[AggregatedUsage]:
    for duration_ms, points in windows.items():
        usage: dict[Any, Amounts] = {}
        for resource in {name for point in points for name in getattr(point, part)}:
            having = [point for point in points if resource in getattr(point, part)]
            if (having[-1].at_ms - having[0].at_ms) * 2 < duration_ms:
                continue
            values = sorted(getattr(point, part)[resource] for point in having)
            usage.setdefault("avg", {})[resource] = sum(values) // len(values)
            for percent in (50, 90, 95, 99):
                rank = max(len(values) * percent // 100 - 1, 0)
                usage.setdefault(f"p{percent}", {})[resource] = values[rank]
        if usage:
            yield AggregatedUsage(duration_ms=duration_ms, usage=usage)


def _pods(points: list[Point]) -> Iterator[tuple[str, str, str, Amounts]]:
    last: dict[tuple[str, str], tuple[str, str]] = {}
    for point in points:
        for name, uid, of, _ in point.pods:
            last[name] = (uid, of)
    for name, (uid, of) in sorted(last.items()):
        usage = _means(
            pod_usage
            for point in points
            for other, other_uid, _, pod_usage in point.pods
            if (other, other_uid) == (name, uid)
        )
        if usage:
            yield *name, of, usage
