"""A simulated cluster with its connections: a watch, a binder and an evictor.

    begin, publish      ──▶ full lists, changes, requests
    carry_out(command)  ──▶ a pod is bound or evicted, or the outcome says why not

Messages are sent through a function; the caller sets the time.
"""

from collections.abc import Callable
from typing import Any

from connectors.ports.command_rules import Command, CommandRules
from schemas.messages.commands import CommandOutcome
from schemas.messages.decisions import PlacementDecision
from schemas.messages.policies import PolicyRecord
from simulation.cluster.cluster import SimulatedCluster
from simulation.cluster.coroutines import run_coroutine
from simulation.cluster.sink import SimulatedSink
from simulation.cluster.state_watch import SimulatedStateWatch

#: Sends a message to a topic.
Send = Callable[[str, Any], None]


class ConnectedCluster:
    """Sends the state of a simulated cluster, and carries out commands."""

    def __init__(self, cluster: SimulatedCluster, send: Send) -> None:
        self.cluster = cluster
        self.rules = CommandRules(cluster.name, SimulatedSink(cluster), cluster.now_ms)
        self._watch = SimulatedStateWatch(cluster)
        self._send = send

    def begin(self, list_id: str) -> None:
        for topic, message in self._watch.full_list(list_id):
            self._send(topic, message)

    def apply_policy(self, document: str, reason: str) -> None:
        record = PolicyRecord(
            cluster=self.cluster.name,
            document=document,
            applied_at_ms=self.cluster.now_ms,
            reason=reason,
        )
        self._send("policies", record)

    def publish(self) -> None:
        """Send the changes since the last call."""
        for topic, message in self._watch.changes():
            self._send(topic, message)

    def carry_out(self, command: Command) -> CommandOutcome | None:
        """Carry out a command; send and return its outcome, if any."""
        if command.cluster != self.cluster.name:
            return None
        outcome = run_coroutine(self.rules.carry_out(command))
        if outcome is not None:
            self._send("command-outcomes", outcome)
        elif isinstance(command, PlacementDecision) and command.outcome == "refused":
            self.cluster.refuse(command.pod.uid)
        self.publish()
        return outcome
