"""Rounds of rebalancing over a cluster's inventory."""

from collections.abc import Collection, Mapping

from schemas.policy import Policy
from streams.cluster.inventory import Inventory
from streams.rebalance.columns import Columns
from streams.rebalance.inputs import RoundInput, selectors_of
from streams.rebalance.koordinator import KoordinatorRounds
from streams.rebalance.outcome import Filter, Gate, RoundOutcome, always, anyone


class Balancer:
    """Finds hot nodes and says which pods should leave them."""

    def __init__(self, policy: Policy) -> None:
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        self.rounds = KoordinatorRounds(policy)
        self.columns = Columns(
            self.rounds.universe, selectors_of(policy), policy.descheduling.node_selector
        )

    def round(
        self,
        inventory: Inventory,
        now_ms: int,
        *,
        gate: Gate = always,
        protect: Filter = anyone,
        skip: Mapping[str, str] | None = None,
        leaving: Collection[str] = (),
    ) -> RoundOutcome:
        self.columns.refresh(inventory)
        return self.rounds.round(
            RoundInput(self.columns, now_ms, protect, gate, skip or {}, leaving)
        )
