"""Mean and variance of usage in one cluster: its nodes' and its fleet's, where a plugin asks for them.

What is kept between records is the lives of pods and the figures of the fleet; all else is summed
up from these. Both become rows (`streams.cluster.moment_tables`).

A policy that asks for the first time, or with other arguments, has every pod summed up anew, node
by node (`node_turns`). Until a node's turn comes it is taken as its requests say, as if its pods
were alike and not measured; their lives go on. The fleet's figures wait until all are summed up.
"""

from collections.abc import Iterable, Mapping

from schemas.metrics import NodeMetric
from schemas.policy import OVERUTILIZATION_RISK, OverutilizationRiskArgs, Policy
from streams.inventory.fleet_in_force import FleetInForce
from streams.inventory.fleet_usage import (
    RECOMPUTE_INTERVAL_MS,
    FleetUsage,
    LearnedUsage,
    compute_fleet_usage,
    prior_usage,
)
from streams.inventory.node import Node
from streams.inventory.node_moments import NodeMoments
from streams.inventory.node_turns import NodeTurns

#: Pods that are summed up at one record, in less than a twentieth of a second.
SUMMED_PER_RECORD_MAX = 6_000
#: Nodes of whose moments the memory is given back at one record: with thirty pods each, in a
#: hundredth of a second.
FREED_PER_RECORD_MAX = 500


def _by_risk(policy: Policy) -> bool:
    plugins = policy.plugins
    return plugins.scores(OVERUTILIZATION_RISK) or plugins.balances(OVERUTILIZATION_RISK)


def _asked_by(policy: Policy) -> OverutilizationRiskArgs | None:
    asked = _by_risk(policy) or policy.load_aware.by_fleet
    return policy.overutilization_risk if asked else None


class Moments:
    """What is known of all nodes of a cluster; nothing where no plugin asks."""

    def __init__(self) -> None:
        self.fleet: FleetInForce | None = None
        """None: no plugin asks."""
        self.learned = LearnedUsage()
        """The figures of `fleet`, for estimates."""
        self.renewed_at_ms: int | None = None
        """The log's time at which the fleet's figures were worked out; none: they are priors."""
        self.fleet_changed = False
        self.changed: dict[str, None] = {}
        """Nodes whose lives have changed since they were written last."""
        self.turns = NodeTurns()
        """Nodes before the next one are summed up."""
        self._unused: list[NodeMoments] = []
        """Of policies before, as long as their memory is not given back."""

    def judge_anew(self, policy: Policy, nodes: Iterable[Node]) -> None:
        """Another policy judges. Lives go on where it asks for the same resources."""
        args, before = _asked_by(policy), self.fleet
        now = None if args is None else FleetInForce(args, prior_usage(args), risk=_by_risk(policy))
        if before is None and now is None:
            return
        if before is not None and now is not None and now.asks_like(before):
            return
        alike = before is not None and now is not None and before.resources == now.resources
        self.fleet = now
        if not alike:
            self.renewed_at_ms, self.fleet_changed = None, True
        if now is None:
            self.learned.replace({})
            self.turns.end()
        else:
            figures = now.figures
            if before is not None and self.renewed_at_ms is not None:
                figures = before.figures
            self.set_figures(figures)
            self.turns.begin()
        for node in nodes:
            if alike and self.fleet is not None and node.moments is not None:
                if node.moments.go_by(self.fleet, summed=False):
                    self.changed[node.name] = None
                continue
            if node.moments is not None:
                self.changed[node.name] = None
                self._unused.append(node.moments)
            self.begin(node)

    def begin(self, node: Node) -> None:
        """Keep account of a node, of whose pods nothing is known."""
        node.moments = None
        if self.fleet is not None:
            node.moments = NodeMoments(self.fleet, summed=self.turns.had(node.name))

    @property
    def summing(self) -> bool:
        """Some nodes are not summed up yet."""
        return self.turns.next is not None

    def turn(self, nodes: Mapping[str, Node]) -> list[Node]:
        """Sum up the nodes whose turn has come, and answer them."""
        del self._unused[-FREED_PER_RECORD_MAX:]
        counts = ((node.name, len(node.held)) for node in nodes.values())
        turn = [nodes[name] for name in self.turns.take(counts, SUMMED_PER_RECORD_MAX)]
        for node in turn:
            if node.moments is not None:
                node.moments.summed = True
                node.moments.measure(node.load.metric, (), fold=False)
                node.moments.sum_up(node.held.values())
        return turn

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
        if self.fleet is None or self.summing:
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
        self.set_figures(figures)
        return True

    def set_figures(self, figures: tuple[FleetUsage, ...]) -> None:
        """Expect these figures of pods that are not measured; a plugin or an estimate asks."""
        assert self.fleet is not None  # noqa: S101 - callers look
        self.fleet.figures = figures
        self.learned.replace(dict(zip(self.fleet.resources, figures, strict=True)))
