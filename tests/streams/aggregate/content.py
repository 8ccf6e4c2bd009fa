"""The relevant state of an aggregate stage, independent of row numbers and columns."""

from typing import Any

from streams.aggregate.collect_policies import PoolRules
from streams.aggregate.node import NodeWindows
from streams.aggregate.stage import AggregateStage


def node_content(node: NodeWindows, collecting: PoolRules) -> Any:
    """One node's windows and names."""
    newest_ms = node.newest_ms
    assert newest_ms is not None
    start = node.samples.find_index(newest_ms - collecting.horizon_ms)
    names = {number: member for member, number in node.pods.members.items()}

    def amounts(figures: list[int]) -> dict[str, int]:
        pairs = zip(node.samples.resources, figures, strict=True)
        return {resource: figure for resource, figure in pairs if figure >= 0}

    samples = [
        (time_ms, node.samples.find_digest(time_ms), amounts(line[0::2]), amounts(line[1::2]))
        for time_ms, line in zip(
            node.samples.times[start:].tolist(), node.samples.figures(start).tolist(), strict=True
        )
    ]
    pods = [
        (time_ms, [(names[line[0]], amounts(line[1:])) for line in matrix.tolist()])
        for time_ms, _, matrix in node.pods.select_since(newest_ms - collecting.average_horizon_ms)
    ]
    kept = node.find_lifetimes(collecting)
    lifetimes = None  # unless they are kept, the next sample of pods begins them
    if kept is not None:
        usage = {resource: kept.list_pairs(resource) for resource in kept.resources}
        usage = {key: pairs for key, pairs in usage.items() if any(mean >= 0 for mean, _ in pairs)}
        minutes = [(names.get(key, key), life.minutes) for key, life in kept.by_number.items()]
        lifetimes = kept.at_ms, minutes, usage
    return node.since_offset, node.reported_at_ms, samples, pods, lifetimes


def content(of: AggregateStage) -> Any:
    """The state that later outputs depend on."""
    state = of.state
    policies = state.policies
    nodes = {
        key: node_content(node, policies.get_pool_rules(node.cluster))
        for key, node in state.nodes.items()
    }
    kept = {cluster: policy.row for cluster, policy in policies.by_cluster.items()}
    return state.position, state.since_sweep, state.clock.newest_ms, nodes, kept
