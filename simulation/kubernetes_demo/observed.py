"""What loadstream says during the demo, read from its topics: figures for the view and the summary."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.metrics import NodeMetric
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.rounds import RebalanceRound

#: Topics that are read.
READ_TOPICS = (
    "node-metrics",
    "placement-decisions",
    "eviction-commands",
    "command-outcomes",
    "status",
)


@dataclass
class Observed:
    """Counts what comes; of each node the newest metric."""

    cpu: dict[str, int] = field(default_factory=dict)
    """Mean CPU of each node, in millicores."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """What was to be done, and its outcome."""
    placed: int = 0
    commanded: int = 0
    """Evictions that are to be carried out."""
    dry: int = 0
    """Evictions that are only to be noted."""
    newest_round: RebalanceRound | None = None
    why: str = ""
    """Why the newest eviction was commanded."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why commands were not carried out."""

    def take(self, message: Any) -> None:
        """Take a message of one of the topics."""
        if isinstance(message, NodeMetric):
            if message.usage and "cpu" in message.usage:
                self.cpu[message.node] = message.usage["cpu"]
        elif isinstance(message, PlacementDecision):
            self.placed += message.outcome == "placed"
        elif isinstance(message, EvictionCommand):
            self.commanded += not message.dry_run
            self.dry += message.dry_run
            self.why = message.reason
        elif isinstance(message, CommandOutcome):
            self.outcomes[message.command, message.result] += 1
            if message.result not in ("done", "dry"):
                self.reasons[message.reason[:120]] += 1
        elif isinstance(message, RebalanceRound):
            self.newest_round = message
