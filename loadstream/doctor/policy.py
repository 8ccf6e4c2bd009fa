"""Checks of what a policy asks for and the nodes of its cluster do not have."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import Looked, Past
from connectors.policies.unmet import unmet
from connectors.queries.cluster_reading import ClusterRecords
from connectors.units import count_text, duration_text
from loadstream.doctor.findings import Finding, ok, warning
from schemas.policy import Policy
from schemas.policy.lint import list_asked_windows
from schemas.policy.selectors import LabelSelector

#: Metrics that are compared, newest first: two or more of each node.
METRICS_MAX = 10_000
#: Values of a label that a line names, the most frequent first.
_VALUES_MAX = 5


def check_pools(records: ClusterRecords, policy: Policy) -> Iterator[Finding]:
    """Find pools of the policy that select none of the nodes."""
    if not records.nodes:
        return
    sections = [
        (f"rebalance.nodePools[{pool.name}].nodeSelector", pool.node_selector)
        for pool in policy.rebalance.node_pools
    ]
    sections.append(("descheduling.nodeSelector", policy.descheduling.node_selector))
    named = [(section, selector) for section, selector in sections if selector is not None]
    empty = 0
    for section, selector in named:
        if not any(selector.matches(node.labels) for node in records.nodes.values()):
            empty += 1
            text = f"{section} selects none of {count_text(len(records.nodes), 'node')}"
            yield warning(
                "policy", f"{text}; {_describe_labels(records, selector)}", "Correct its labels"
            )
    if named and not empty:
        yield ok("policy", f"each of {count_text(len(named), 'node selector')} selects nodes")


def _describe_labels(records: ClusterRecords, selector: LabelSelector) -> str:
    """The values that the nodes have of the labels that a selector names."""
    texts = []
    keys = (*selector.match_labels, *(each.key for each in selector.match_expressions))
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
    """Find windows that the policy judges by and no metric reports."""
    metrics = [each for each in records.metrics.values() if each.usage is not None]
    for field, statistic, window_ms in list_asked_windows(policy) if metrics else ():
        reports = [
            {
                each.duration_ms
                for each in metric.aggregated
                if any(kind == statistic and amounts for kind, amounts in each.usage.items())
            }
            for metric in metrics
        ]
        filled = sum(window_ms in found if window_ms else bool(found) for found in reports)
        what = f"{statistic} over {duration_text(window_ms)}" if window_ms else statistic
        text = f"loadAware.aggregated.{field}: {filled} of {count_text(len(metrics), 'node')} report {what}"
        if filled == len(metrics):
            yield ok("windows", text)
            continue
        lengths = sorted(set().union(*reports))
        there = ", ".join(map(duration_text, lengths)) or "none"
        advice = "Nodes report a window when their samples span half of it; otherwise ask for one of these"
        yield warning("windows", f"{text}; reported windows: {there}", advice)


def check_memory(connection: Connection, records: ClusterRecords) -> Iterator[Finding]:
    """Find nodes whose memory is counted in another way than that of others, or in two ways in turn."""
    definitions: defaultdict[str, set[str]] = defaultdict(set)
    for metric in Past(connection, "node-metrics", records.cluster, METRICS_MAX).newest(Looked()):
        if metric.node in records.nodes and metric.usage is not None:
            definitions[metric.node].add(metric.memory_is or "unknown")
    counts = Counter(" and ".join(sorted(names)) for names in definitions.values())
    if len(set().union(*definitions.values())) > 1:
        order = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        counted = ", ".join(f"{name} on {nodes}" for name, nodes in order)
        text = f"nodes are measured by several definitions: {counted}"
        advice = "Compared with each other they mislead: let one kind of source measure all nodes"
        yield warning("memory", text, advice)
    elif counts:
        (name,) = counts
        yield ok("memory", f"it means the same on all measured nodes: {name}")


def check_unmet(connection: Connection, cluster: str, policy: Policy) -> Iterator[Finding]:
    """Find schedulers, namespaces, priority classes and budgets, as `policy check --cluster` does."""
    for sentence in unmet(connection, cluster, policy):
        yield warning("policy", sentence)
