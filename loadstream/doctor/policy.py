"""Checks of a policy: whether it is applied, and whether it fits the nodes of its cluster."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from connectors.kafka.applied import APPLIED, AppliedRecords
from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages
from connectors.policies.entries import TOPIC, find_newest_entry
from connectors.policies.unmet import find_unmet_requirements
from connectors.queries.cluster_reading import ClusterRecords
from connectors.queries.node_usage import NodeUsageRow, list_node_usage
from connectors.queries.whynot.wording import percents_text
from connectors.units import count_text, duration_text
from loadstream.doctor.findings import Finding, error, ok, warning
from schemas.policy import Policy, PolicyError, read_policy
from schemas.policy.lint import list_needed_windows
from schemas.policy.selectors import LabelSelector
from streams.placement.registry import KNOWN

#: Metrics that are compared, newest first: at least two per node.
METRICS_MAX = 10_000
#: Values of a label that a line names, the most frequent first.
_VALUES_MAX = 5


def read_checked_policy(connection: Connection, cluster: str) -> tuple[Policy, Finding]:
    """Return the policy that applies, and whether a worker has applied the newest record.

    The default policy applies if there is no record, or this version cannot read it. Raises
    BrokerUnavailable.
    """
    newest = find_newest_entry(connection, cluster)
    if newest is None:
        return Policy(), ok("policy", "no policy was applied: the default policy observes")
    try:
        policy = read_policy(newest.record.document, KNOWN)
    except PolicyError as failure:
        return Policy(), error("policy", f"this version cannot read the policy: {failure}")
    state = AppliedRecords(connection, TOPIC).state(newest.partition, newest.offset)
    if state != APPLIED:
        advice = f"See `loadstream policy history {cluster}`"
        return policy, error("policy", f"{policy.digest} is {state}", advice)
    paused = ", paused" if newest.record.paused else ""
    return policy, ok("policy", f"{policy.digest} is applied, mode {policy.mode}{paused}")


def check_pools(records: ClusterRecords, policy: Policy) -> Iterator[Finding]:
    """Find pools of the policy that select none of the nodes."""
    if not records.nodes:
        return
    sections = [
        (f"rebalance.nodePools[{pool.name}].nodeSelector", pool.node_selector)
        for pool in policy.rebalance.node_pools
    ]
    sections.append(("descheduling.nodeSelector", policy.descheduling.node_selector))
    selectors = [(section, selector) for section, selector in sections if selector is not None]
    empty = 0
    for section, selector in selectors:
        if not any(selector.matches(node.labels) for node in records.nodes.values()):
            empty += 1
            text = f"{section} selects none of {count_text(len(records.nodes), 'node')}"
            yield warning(
                "policy", f"{text}; {_describe_labels(records, selector)}", "Correct its labels"
            )
    if selectors and not empty:
        yield ok("policy", f"each of {count_text(len(selectors), 'node selector')} selects nodes")


def _describe_labels(records: ClusterRecords, selector: LabelSelector) -> str:
    """Describe the nodes' values of a selector's labels."""
    texts = []
    keys = (*selector.match_labels, *(expression.key for expression in selector.match_expressions))
    for key in dict.fromkeys(keys):
        values = Counter(
            node.labels[key] for node in records.nodes.values() if key in node.labels
        ).most_common(_VALUES_MAX)
        counted = ", ".join(f"{value} ({nodes})" for value, nodes in values)
        texts.append(
            f"label {key} has the values {counted}" if counted else f"no node has label {key}"
        )
    return "; ".join(texts)


def check_windows(records: ClusterRecords, policy: Policy) -> Iterator[Finding]:
    """Find windows that the policy uses or collects, but no metric reports."""
    metrics = [metric for metric in records.metrics.values() if metric.usage is not None]
    if not metrics:
        return
    advice = "Wait until the samples of nodes span half of the window, or choose another window"
    reported = [
        {(window.duration_ms, kind) for window in metric.aggregated for kind in window.usage}
        for metric in metrics
    ]
    lengths = sorted({duration_ms for windows in reported for duration_ms, _ in windows})
    reported_text = ", ".join(map(duration_text, lengths)) or "none"
    for field, statistic, window_ms in list_needed_windows(policy):
        filled = sum(
            any(kind == statistic and window_ms in (0, length) for length, kind in windows)
            for windows in reported
        )
        wanted_window = f"{statistic} over {duration_text(window_ms)}" if window_ms else statistic
        text = f"loadAware.aggregated.{field}: {filled} of {count_text(len(metrics), 'node')} report {wanted_window}"
        if filled == len(metrics):
            yield ok("windows", text)
        else:
            yield warning("windows", f"{text}; reported windows: {reported_text}", advice)
    # Metrics that other programs aggregate have no number of samples; the policy does not set their windows.
    if not any(metric.samples for metric in metrics):
        return
    for section, collect in policy.collect.by_section.items():
        collected = collect.metric_aggregate_policy.durations_ms
        unfilled = ", ".join(map(duration_text, (ms for ms in collected if ms not in lengths)))
        if unfilled:
            text = f"{section}.metricAggregatePolicy: no node reports a window of {unfilled}"
            yield warning("windows", f"{text}; reported windows: {reported_text}", advice)


def check_low_thresholds(records: ClusterRecords, policy: Policy) -> Iterator[Finding]:
    """Find pools in which every measured node exceeds the low thresholds, so that no node takes pods."""
    if not policy.judges_by_thresholds:
        return
    rows = list_node_usage(records)
    nodes = {row.node: row for row in rows if row.percent and "stale" not in row.state}
    for pool in policy.rebalance.pools("loadstream"):
        members = [
            row
            for row in nodes.values()
            if pool.node_selector is None
            or pool.node_selector.matches(records.nodes[row.node].labels)
        ]
        for row in members:
            del nodes[row.node]  # a node belongs to the first pool that selects it
        low = pool.low_thresholds or {}
        if not members or not low or pool.use_deviation_thresholds:
            continue
        lowest = min(members, key=lambda row: _find_excess(row, low))
        if _find_excess(lowest, low) >= 0:
            used = percents_text(
                {name: lowest.percent[name] for name in low if name in lowest.percent}, "and"
            )
            text = (
                f"pool {pool.name}: no node is below the low thresholds, {percents_text(low, 'and')}; the lowest "
                f"is {lowest.node} with {used}"
            )
            yield warning(
                "policy", text, "No pod has a target: raise rebalance.lowThresholds, or add nodes"
            )


def _find_excess(row: NodeUsageRow, low: Mapping[str, float]) -> float:
    """Return by how much the usage of a node exceeds the thresholds, at most."""
    return max(row.percent.get(name, 0.0) - percent for name, percent in low.items())


def check_memory(connection: Connection, records: ClusterRecords) -> Iterator[Finding]:
    """Find nodes that measure memory by different definitions."""
    definitions: defaultdict[str, set[str]] = defaultdict(set)
    past = PastMessages(connection, "node-metrics", records.cluster, METRICS_MAX)
    for metric in past.newest():
        if metric.node in records.nodes and metric.usage is not None:
            definitions[metric.node].add(metric.memory_is or "unknown")
    counts = Counter(" and ".join(sorted(names)) for names in definitions.values())
    if len(set().union(*definitions.values())) > 1:
        order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        counted = ", ".join(f"{name} on {nodes}" for name, nodes in order)
        text = f"nodes are measured by several definitions: {counted}"
        advice = "They cannot be compared: measure all nodes with the same kind of source"
        yield warning("memory", text, advice)
    elif counts:
        (name,) = counts
        yield ok("memory", f"all measured nodes have the same definition: {name}")


def check_unmet(connection: Connection, cluster: str, policy: Policy) -> Iterator[Finding]:
    """Find unmet requirements of the policy, as `policy check --cluster` does."""
    for sentence in find_unmet_requirements(connection, cluster, policy):
        yield warning("policy", sentence)
