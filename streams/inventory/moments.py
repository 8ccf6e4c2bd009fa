"""Mean and variance of usage in one cluster: its nodes' and its fleet's, where a plugin asks for them.

What is kept between records is the lives of pods and the figures of the fleet; all else is summed
up from these. Both become rows (`streams.cluster.usage_rows`).

A policy that asks for the first time, or with other arguments, has every pod summed up at once.
"""

from collections.abc import Iterable

from schemas.messages.metrics import NodeMetric
from schemas.policy import OVERUTILIZATION_RISK, OverutilizationRiskArgs, Policy
from streams.inventory.fleet_in_force import FleetInForce
from streams.inventory.fleet_usage import (
    RECOMPUTE_INTERVAL_MS,
    compute_fleet_usage,
    prior_usage,
)
from streams.inventory.node import Node
from streams.inventory.node_moments import NodeMoments


def _asked_by(policy: Policy) -> OverutilizationRiskArgs | None:
    plugins = policy.plugins
    by_risk = plugins.scores(OVERUTILIZATION_RISK) or plugins.balances(OVERUTILIZATION_RISK)
    return policy.overutilization_risk if by_risk else None


class Moments:
    """What is known of all nodes of a cluster; nothing where no plugin asks."""

    def __init__(self) -> None:
        self.fleet: FleetInForce | None = None
        """None: no plugin asks."""
        self.renewed_at_ms: int | None = None
        """The log's time at which the fleet's figures were worked out; none: they are priors."""
        self.fleet_changed = False
        self.changed: dict[str, None] = {}
        """Nodes whose lives have changed since they were written last."""

    def judge_anew(self, policy: Policy, nodes: Iterable[Node]) -> None:
        """Another policy judges. Lives go on where it asks for the same resources."""
        args, before = _asked_by(policy), self.fleet
        now = None if args is None else FleetInForce(args, prior_usage(args))
        if before is None and now is None:
            return
        if before is not None and now is not None and now.args == before.args:
            return
        alike = before is not None and now is not None and before.resources == now.resources
        self.fleet = now
        if not alike:
            self.renewed_at_ms, self.fleet_changed = None, True
        if now is not None and before is not None and self.renewed_at_ms is not None:
            now.figures = before.figures
        for node in nodes:
            if now is not None and node.moments is not None and alike:
                if node.moments.go_by(now):
                    self.changed[node.name] = None
            else:
                if node.moments is not None:
                    self.changed[node.name] = None
                self.begin(node)
            if node.moments is not None:
                node.moments.measure(node.load.metric, (), fold=False)
                node.moments.sum_up(node.held.values())

    def begin(self, node: Node) -> None:
        """Keep account of a node, of whose pods nothing is known."""
        node.moments = None if self.fleet is None else NodeMoments(self.fleet)

    def measure(self, node: Node, metric: NodeMetric | None, *, fold: bool) -> None:
        """A node's usage was reported, or is not reported any more."""
        if node.moments is not None and node.moments.measure(metric, node.held.values(), fold=fold):
            self.changed[node.name] = None

    def forget(self, name: str) -> None:
        """A node is no node any more."""
        if self.fleet is not None:
            self.changed[name] = None

    def renew(self, nodes: Iterable[Node], now_ms: int) -> bool:
        """Work the fleet's figures out anew, if it is time; answers whether they have changed."""
        last_ms = self.renewed_at_ms
        if self.fleet is None:
            return False
        if last_ms is not None and now_ms - last_ms < RECOMPUTE_INTERVAL_MS:
            return False
        moments = [node.moments for node in nodes if node.moments is not None]
        figures = compute_fleet_usage(
            (each.fleet_sums for each in moments),
            self.fleet.args,
            (each.tiny_request_sums for each in moments),
        )
        self.renewed_at_ms, self.fleet_changed = now_ms, True
        if figures == self.fleet.figures:
            return False
        self.fleet.figures = figures
        return True
