"""Rounds of rebalancing over a cluster's inventory."""

from collections.abc import Collection

from schemas.policy import Policy
from streams.cluster.inventory import Inventory
from streams.rebalance.balance import LoadstreamRounds
from streams.rebalance.columns import Columns
from streams.rebalance.inputs import RoundInput, selectors_of
from streams.rebalance.koordinator import KoordinatorRounds
from streams.rebalance.outcome import (
    Filter,
    Gate,
    Remembered,
    RoundOutcome,
    always,
    anyone,
    nothing,
)


class Balancer:
    """Finds hot nodes and says which pods should leave them."""

    def __init__(self, policy: Policy) -> None:
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        made = KoordinatorRounds if policy.compat == "koordinator" else LoadstreamRounds
        self.rounds: KoordinatorRounds | LoadstreamRounds = made(policy)
        self.columns = Columns(
            self.rounds.universe, selectors_of(policy), policy.descheduling.node_selector
        )

    def refresh(self, inventory: Inventory, most: int | None = None) -> int:
        """Pack what has changed."""
        return self.columns.refresh(inventory, most)

    def round(
        self,
        inventory: Inventory,
        now_ms: int,
        *,
        gate: Gate = always,
        protect: Filter = anyone,
        remembered: Remembered = nothing,
        leaving: Collection[str] = (),
    ) -> RoundOutcome:
        self.columns.refresh(inventory)
        return self.rounds.round(
            RoundInput(self.columns, now_ms, protect, gate, remembered, leaving=leaving)
        )
