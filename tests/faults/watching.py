"""What must hold of decisions and commands, by the records of all topics alone.

The policy that a decision was made by, and the outcomes that it knew, are those up to its `as_of`.
Limits are compared with the highest that held while a migration may have been let through.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import AsOf, PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.policies import PolicyRecord
from schemas.policy import Policy, read_policy
from schemas.policy.migration import MigrationControllerArgs
from schemas.topics.codec import decode
from simulation.closed_loop.world import World
from simulation.cluster.cluster import MachineEvent, Observer
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PodPlan
from tests.faults.log import Log
from tests.faults.sinks import PARTITION
from tests.faults.trace import PARTITIONS
from tests.fuzz.failure import Failure, require

#: A migration that was let through is over after this time, with its command: two lives of a
#: migration.
_LET_THROUGH_MS = 2 * 300_000

_POLICIES: dict[str, Policy] = {}


class Watching(Observer):
    """Follows what the cluster stage says; observes the cluster from its beginning on."""

    def __init__(self, world: World, log: Log) -> None:
        self._world, self._log = world, log
        world.cluster.observers.append(self)
        self._read: Counter[tuple[str, int]] = Counter()
        self._bytes: dict[str, bytes] = {}
        """Every decision and command, by id."""
        self.placed: dict[str, list[PlacementDecision]] = {}
        """Of each pod."""
        self.commands: dict[str, EvictionCommand] = {}
        self.outcomes: dict[str, list[tuple[int, CommandOutcome]]] = {}
        """Of each command, with their offsets."""
        self.finals: set[str] = set()
        """Pods whose requests ended with a refusal or were withdrawn."""
        self.counts: Counter[str] = Counter()
        self._policies: list[tuple[int, bool, Policy]] = []
        """When each came, whether it pauses, and what it says."""
        self._removed_ms: dict[str, int] = {}
        """When each node was removed last."""
        self._owner: dict[str, str] = {}

    def asked(self, plan: PodPlan, *, withdrawn: bool = False) -> None:
        """Whose pod it is."""
        self._owner[plan.pod.uid] = plan.pod.owners[0].uid

    def machine_changed(self, machine: Machine, event: MachineEvent) -> None:
        """Nodes that are removed take what was placed there with them."""
        if event == "removed":
            self._removed_ms[machine.name] = self._world.cluster.now_ms

    def step(self) -> None:
        """Look at what is new."""
        for partition in range(PARTITIONS):
            for _, value in self._new("dead-letters", partition):
                letter = decode("dead-letters", value)
                assert isinstance(letter, DeadLetter)
                # Nothing here is broken on its way, so there is nothing to be refused.
                raise Failure("a record is refused", f"{letter.topic}: {letter.reason}")
        for offset, value in self._new("policies", PARTITION):
            self._policy(offset, decode("policies", value))
        for offset, value in self._new("command-outcomes", PARTITION):
            outcome = decode("command-outcomes", value)
            assert isinstance(outcome, CommandOutcome)
            self.counts[f"{outcome.command} {outcome.result}"] += 1
            self.outcomes.setdefault(outcome.command_id, []).append((offset, outcome))
        for _, value in self._new("placement-decisions", PARTITION):
            decision = decode("placement-decisions", value)
            assert isinstance(decision, PlacementDecision)
            if self._is_new(decision.decision_id, value):
                self._decision(decision)
        for _, value in self._new("eviction-commands", PARTITION):
            command = decode("eviction-commands", value)
            assert isinstance(command, EvictionCommand)
            if self._is_new(command.command_id, value):
                self._command(command)

    def _new(self, topic: str, partition: int) -> Iterator[tuple[int, bytes]]:
        first = self._read[topic, partition]
        for record in self._log.since(topic, partition, first):
            self._read[topic, partition] = record.offset + 1
            assert record.value is not None
            yield record.offset, record.value

    def _is_new(self, id_: str, value: bytes) -> bool:
        """What is published again must be the same."""
        known = self._bytes.setdefault(id_, value)
        require(known == value, "two decisions or commands have one id", id_)
        return known is value

    # --- policies -------------------------------------------------------------------------------

    def _policy(self, offset: int, record: Any) -> None:
        assert isinstance(record, PolicyRecord)
        require(offset == len(self._policies), "a policy was passed over")
        policy = _POLICIES.get(record.document)
        if policy is None:
            policy = _POLICIES[record.document] = read_policy(record.document)
        self._policies.append((record.applied_at_ms, record.paused, policy))

    def _in_force(self, as_of: AsOf) -> tuple[bool, Policy]:
        offset = as_of.offsets.get("policies", -1)
        return (False, Policy()) if offset < 0 else self._policies[offset][1:]

    def _allowed(
        self, as_of: AsOf, now_ms: int, limit: Callable[[MigrationControllerArgs], Any]
    ) -> list[Any]:
        """A limit as it was in all policies under which a migration may have been let through."""
        offset = as_of.offsets.get("policies", -1)
        known = self._policies[: offset + 1]
        ended = [
            later[0] < now_ms - _LET_THROUGH_MS for later in known[1:]
        ]  # the policy after it came long ago
        kept = [each for each, over in zip(known, [*ended, False], strict=True) if not over]
        return [limit(policy.migration) for _, _, policy in kept]

    # --- decisions ------------------------------------------------------------------------------

    def _decision(self, decision: PlacementDecision) -> None:
        self.counts[decision.outcome] += 1
        uid = decision.pod.uid
        if decision.outcome in ("refused", "withdrawn"):
            self.finals.add(uid)
        if decision.outcome != "placed":
            return
        paused, _ = self._in_force(decision.as_of)
        require(not paused, "a pod is placed while the cluster is paused", uid)
        for before in self.placed.get(uid, ()):
            require(
                not self._holds(before, decision),
                "a pod is placed twice",
                f"{uid}: {before.decision_id} on {before.node}, then {decision.decision_id} on "
                f"{decision.node}",
            )
        self.placed.setdefault(uid, []).append(decision)

    def _holds(self, before: PlacementDecision, decision: PlacementDecision) -> bool:
        """Whether an earlier decision still held when this one was made."""
        now_ms = decision.decided_at_ms
        if self._removed_ms.get(before.node or "", -1) >= before.decided_at_ms:
            return False
        results = [outcome.result for _, outcome in self._known(before.decision_id, decision.as_of)]
        if results:
            return "done" in results
        return before.expires_at_ms is not None and before.expires_at_ms > now_ms

    def _known(self, command_id: str, as_of: AsOf) -> list[tuple[int, CommandOutcome]]:
        """Outcomes of a command that were applied then."""
        last = as_of.offsets.get("command-outcomes", -1)
        return [each for each in self.outcomes.get(command_id, ()) if each[0] <= last]

    # --- commands -------------------------------------------------------------------------------

    def _command(self, command: EvictionCommand) -> None:
        self.counts["command dry" if command.dry_run else "command"] += 1
        paused, policy = self._in_force(command.as_of)
        require(not paused, "a command is given while the cluster is paused")
        require(
            command.dry_run or policy.mode == "enforce",
            "a command is not dry while the cluster observes",
        )
        alive = [each for each in self.commands.values() if self._lives(each, command)]
        self.commands[command.command_id] = command
        twice = any(each.pod.uid == command.pod.uid for each in alive)
        require(not twice, "a pod is commanded while a command for it is alive", f"{command.pod}")
        self._check_counts(command, [*alive, command])
        self._check_rate(command)

    def _lives(self, earlier: EvictionCommand, command: EvictionCommand) -> bool:
        """Whether an earlier command could still be carried out when this one was given."""
        if self._known(earlier.command_id, command.as_of):
            return False
        if self._removed_ms.get(earlier.node, -1) >= earlier.decided_at_ms:
            return False
        # A pod that has ended by itself is not there to be evicted.
        there = self._world.cluster.kubelets.pod(earlier.pod.uid)
        return there is not None and earlier.expires_at_ms > command.decided_at_ms

    def _check_counts(self, command: EvictionCommand, alive: list[EvictionCommand]) -> None:
        same: dict[str, tuple[Callable[[MigrationControllerArgs], Any], int]] = {
            "maxMigratingGlobally": (lambda args: args.max_migrating_globally, len(alive)),
            "maxMigratingPerNode": (
                lambda args: args.max_migrating_per_node,
                sum(each.node == command.node for each in alive),
            ),
            "maxMigratingPerNamespace": (
                lambda args: args.max_migrating_per_namespace,
                sum(each.pod.namespace == command.pod.namespace for each in alive),
            ),
            "maxMigratingPerWorkload": (
                lambda args: args.max_migrating_per_workload,
                sum(self._owner[each.pod.uid] == self._owner[command.pod.uid] for each in alive),
            ),
        }
        for name, (limit, count) in same.items():
            allowed = self._allowed(command.as_of, command.decided_at_ms, limit)
            if all(isinstance(each, int) and each for each in allowed):
                require(
                    count <= max(allowed),
                    f"{name} is exceeded",
                    f"{count} commands alive, allowed {max(allowed)}",
                )

    def _check_rate(self, command: EvictionCommand) -> None:
        """No window that ends now has had more than the bucket gives."""
        now_ms = command.decided_at_ms
        rates = self._allowed(command.as_of, now_ms, lambda args: Fraction(str(args.evict_qps)))
        bursts = self._allowed(command.as_of, now_ms, lambda args: args.evict_burst)
        burst = max(Fraction(max(bursts)), max(rates))
        times = sorted(each.decided_at_ms for each in self.commands.values())
        for count, start_ms in enumerate(reversed(times), start=1):
            if start_ms < now_ms - _LET_THROUGH_MS:
                return
            allowed = burst + max(rates) * Fraction(now_ms - start_ms, 1_000)
            require(
                count <= allowed,
                "evictQPS and evictBurst are exceeded",
                f"{count} commands in {now_ms - start_ms} ms",
            )
