"""Nodes by usage, like `kubectl top nodes`.

usage     mean over the collect policy's window, up to the newest sample
p95       95th percentile of the samples in the shortest window of the metric
percent   of the node's allocatable amount, or of its annotation raw-allocatable
age       age of the newest sample
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from connectors.queries.cluster_reading import ClusterRecords
from connectors.units import ago_text, count_text, duration_text
from schemas.base.capacity import merge_raw_allocatable
from schemas.base.quantities import format_amount, parse_amounts
from schemas.messages.metrics import NodeMetric
from schemas.policy import Policy, PolicyError, read_policy

_COLUMNS = (
    "NODE", "CPU", "CPU%", "P95", "MEMORY", "MEM%", "P95", "PODS", "AGE", "SOURCE", "STATE",
)  # fmt: skip
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class NodeUsageRow:
    """Usage of one node. Amounts: cpu in millicores, memory in bytes; unknown amounts are missing."""

    node: str
    usage: Mapping[str, int]
    percent: Mapping[str, float]
    p95: Mapping[str, int]
    p95_percent: Mapping[str, float]
    p95_duration_ms: int | None
    """Window of the percentile."""
    capacity: Mapping[str, int]
    """The amounts that count as 100 %."""
    updated_at_ms: int | None
    """Time of the newest sample."""
    age_ms: int | None
    samples: int
    """Samples of the mean; 0: unknown, because another program aggregated them."""
    report_interval_ms: int | None
    memory_is: str | None
    """Definition of memory usage."""
    source: str | None
    pods: int
    """Number of measured pods."""
    state: tuple[str, ...]
    """Some of: no metric, stale, hot, at risk, cordoned."""

    @property
    def highest_percent(self) -> float:
        """The higher percentage of cpu and memory; -1: both are unknown."""
        return max(self.percent.get("cpu", -1.0), self.percent.get("memory", -1.0))


def read_policy_in_force(records: ClusterRecords) -> Policy:
    """Return the newest policy; the default policy if there is none, or it has errors."""
    try:
        return read_policy(records.policy.document if records.policy else "")
    except PolicyError:
        return read_policy("")


def list_node_usage(records: ClusterRecords) -> list[NodeUsageRow]:
    """Return a row per node, the node with the highest percentage first."""
    oldest_ms = read_policy_in_force(records).rebalance.node_metric_expiration_seconds * 1_000
    pools = records.round.pools if records.round else ()
    hot = {
        node.node: "hot" if node.cost is None else "at risk" for pool in pools for node in pool.hot
    }
    names = records.nodes or records.metrics
    rows = [_build_row(records, name, hot.get(name), oldest_ms) for name in names]
    rows.sort(key=lambda row: (-row.highest_percent, row.node))
    return rows


def _build_row(records: ClusterRecords, name: str, hot: str | None, oldest_ms: int) -> NodeUsageRow:
    metric, node = records.metrics.get(name), records.nodes.get(name)
    capacity = (
        merge_raw_allocatable(parse_amounts(node.allocatable), node.annotations) if node else {}
    )
    usage = (metric.usage if metric else None) or {}
    p95, p95_duration_ms = _find_p95(metric)
    updated_at_ms = metric.updated_at_ms if metric else None
    age_ms = None if updated_at_ms is None else max(0, records.now_ms - updated_at_ms)
    stale = age_ms is not None and age_ms >= oldest_ms
    state = [
        "no metric" if not usage else "stale" if stale else None,
        hot,
        "cordoned" if node and node.unschedulable else None,
    ]
    return NodeUsageRow(
        name, usage, _percent(usage, capacity), p95, _percent(p95, capacity), p95_duration_ms,
        capacity, updated_at_ms, age_ms,
        metric.samples if metric else 0,
        metric.report_interval_ms if metric else None,
        metric.memory_is if metric else None,
        metric.source if metric else None,
        records.measured_pods.get(name, 0),
        tuple(word for word in state if word),
    )  # fmt: skip


def _find_p95(metric: NodeMetric | None) -> tuple[Mapping[str, int], int | None]:
    """Return the 95th percentile over the shortest possible window, and the length of the window."""
    measured = [window for window in metric.aggregated if window.usage.get("p95")] if metric else []
    if not measured:
        return {}, None
    shortest = min(measured, key=lambda window: window.duration_ms)
    return shortest.usage["p95"], shortest.duration_ms


def _percent(usage: Mapping[str, int], capacity: Mapping[str, int]) -> dict[str, float]:
    return {
        name: round(100 * amount / capacity[name], 1)
        for name, amount in usage.items()
        if capacity.get(name, 0) > 0
    }


def usage_table(rows: Sequence[NodeUsageRow]) -> list[tuple[str, ...]]:
    return [_COLUMNS, *(_format_cells(row) for row in rows)]


def _format_cells(row: NodeUsageRow) -> tuple[str, ...]:
    def cells_of(resource: str) -> tuple[str, str, str]:
        amount = row.usage.get(resource)
        percents = (row.percent.get(resource), row.p95_percent.get(resource))
        return (
            _UNKNOWN if amount is None else format_amount(resource, amount),
            *(_UNKNOWN if percent is None else f"{percent:.0f}%" for percent in percents),
        )  # type: ignore[return-value]  # three texts

    age = _UNKNOWN if row.age_ms is None else ago_text(row.age_ms)
    pods = str(row.pods) if row.usage else _UNKNOWN
    state = ", ".join(row.state)
    amounts = (*cells_of("cpu"), *cells_of("memory"))
    return (row.node, *amounts, pods, age, row.source or _UNKNOWN, state)


def describe_columns(records: ClusterRecords, rows: Sequence[NodeUsageRow]) -> Iterator[str]:
    """Yield the definitions of the numbers, for a comparison with `kubectl top`."""
    collect = read_policy_in_force(records).collect
    average = duration_text(collect.as_messages[0].average_ms)
    pools = " (its pool's own window, where `collect.pools` has one)" if collect.pools else ""
    yield f"CPU, MEMORY   mean over {average}{pools} up to the newest sample, whose age is AGE"
    foreign = sum(bool(row.usage) and not row.samples for row in rows)
    if foreign:
        yield (
            f"              {count_text(foreign, 'node')} reported as aggregates, with the window of the program "
            "that computed them"
        )
    windows = sorted({row.p95_duration_ms for row in rows if row.p95_duration_ms})
    if windows:
        yield f"P95           95th percentile of the samples of {' or '.join(map(duration_text, windows))}"
    yield "CPU%, MEM%    and P95: percent of allocatable, or of the node's annotation raw-allocatable"
    counted = Counter(row.memory_is for row in rows if row.memory_is)
    if counted:
        kinds = ", ".join(
            f"{name} ({count_text(n, 'node')})" for name, n in sorted(counted.items())
        )
        yield f"memory counts {kinds}"
    yield "`kubectl top nodes` differs: see docs/reference/status.md"
