"""Rules of every sink: which commands it executes, with one outcome for each.

    decision or command ──▶ CommandRules ──▶ Sink (bind, evict) ──▶ CommandOutcome, or None

- Each id once: a repeated command has no effect and no second outcome. Ids are kept for `IDS_KEPT_MS`
  of log time after the command has expired.
- Expiry: `expires_at_ms` is compared with the newest record of topic `clock` in the command's
  partition when the command is executed. The time goes back only if several consecutive records are
  far behind it.
- Dry runs do not reach the sink.
- Up to `IN_FLIGHT_MAX` commands run concurrently; commands of one pod run in order of arrival.
- An attempt that the sink allows to repeat is repeated with growing pauses until the command expires,
  at most `ATTEMPTS_MAX` times. The last attempt determines the outcome.
- A decision without a node is explained to users of the cluster; it has no outcome.
- Every failure of the cluster is an outcome and not an exception.
- A worker that has lost a partition cannot write to it, so commands have no epoch. A process that
  loses the partition of a sink calls `stop` first; then no command is started.

If the process dies between an attempt and its report, there is no outcome. The uid of the pod is a
precondition of every attempt, so another process cannot repeat the effect. `remember` takes the ids of
commands that were reported before a restart.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from itertools import islice

from connectors.ports.sink import Attempt, Sink, SinkError
from schemas.messages.clock import AHEAD_MAX_MS
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.decisions import PlacementDecision
from schemas.messages.pods import PodRef

#: Time that an id is kept after its command has expired; no delivery is later.
IDS_KEPT_MS = 3_600_000
#: Most kept ids, about 100 bytes each: three hours of a cluster that places 100 pods per second.
IDS_MAX = 1_000_000
#: Concurrent attempts: enough to saturate an API server on two cores.
IN_FLIGHT_MAX = 64
#: Most attempts per command, a quarter of an hour with pauses: a command may have no expiry, and the clock
#: of the log may stop.
ATTEMPTS_MAX = 100
#: First and longest pause between attempts, in seconds; a pause is twice as long as the last.
PAUSE_FIRST_S, PAUSE_MAX_S = 0.25, 10.0
#: After this many consecutive clock records far behind our time, our time is wrong. A single record may
#: come from a worker that was suspended and has been replaced.
TICKS_BEHIND = 3
#: Longest reason in an outcome.
_REASON_MAX = 2_000

Command = PlacementDecision | EvictionCommand


class CommandRules:
    """Applies the rules to the commands of one cluster and its sink."""

    def __init__(
        self,
        cluster: str,
        sink: Sink,
        now_ms: int,
        *,
        gate: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        report: Callable[[CommandOutcome], Awaitable[None]] | None = None,
    ) -> None:
        """Args:
        cluster: only commands of this cluster are executed.
        sink: executes the commands.
        now_ms: time of the newest record of topic `clock`.
        gate: context around each attempt and its report. If it raises, `carry_out` raises the same
            exception, and the command was not executed completely.
        report: called with each outcome, before `carry_out` returns it.
        """
        self.now_ms = now_ms
        self._gate = gate
        self._report = report
        self._cluster = cluster
        self._sink = sink
        self._stopped = asyncio.Event()
        self._ids: dict[str, int] = {}
        """Time at which an id may be forgotten, by id, in order of arrival."""
        self._behind = 0
        """Number of consecutive clock records far behind our time."""
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}
        """Lock and number of commands of each pod with unfinished commands, by uid."""

    def advance_clock(self, now_ms: int) -> None:
        """Apply a record of topic `clock`.

        Time goes back only after several consecutive records that are far behind: a single wrong record,
        which workers refuse, must not let all commands expire.
        """
        is_behind = now_ms < self.now_ms - AHEAD_MAX_MS
        self._behind = self._behind + 1 if is_behind else 0
        if now_ms >= self.now_ms or self._behind == TICKS_BEHIND:
            self.now_ms, self._behind = now_ms, 0

    def remember(self, command_id: str) -> None:
        self._ids[command_id] = self.now_ms + IDS_KEPT_MS

    def stop(self) -> None:
        """Start no further commands; attempts under way are completed."""
        self._stopped.set()

    async def carry_out(self, command: Command) -> CommandOutcome | None:
        """Execute a command if the rules allow it.

        Returns None without an outcome: the command is for another cluster, places no pod, was executed
        before, or `stop` was called before it was complete.
        """
        if command.cluster != self._cluster or self._stopped.is_set():
            return None
        if isinstance(command, PlacementDecision) and command.outcome != "placed":
            await self._explain(command)
            return None
        command_id = _id(command)
        if command_id in self._ids:
            return None
        if not self._make_room():
            reason = f"the limit of {IDS_MAX} remembered commands is reached"
            async with self._gate():
                return await self._finish(self._outcome(command, "refused", reason))
        self._ids[command_id] = max(self.now_ms, command.expires_at_ms or 0) + IDS_KEPT_MS
        async with self._turn(command.pod.uid):
            outcome = await self._attempts(command)
        if outcome is None:
            self._ids.pop(command_id, None)
        return outcome

    async def _explain(self, decision: PlacementDecision) -> None:
        async with self._turn(decision.pod.uid), self._gate():
            if not self._stopped.is_set():
                await self._sink.explain(decision)

    async def _finish(self, outcome: CommandOutcome) -> CommandOutcome:
        if self._report is not None:
            await self._report(outcome)
        return outcome

    async def _attempts(self, command: Command) -> CommandOutcome | None:
        """Repeat attempts until an outcome is final, and report it; None if `stop` was called before."""
        outcome: CommandOutcome | None = None
        number = 0
        while True:
            async with AsyncExitStack() as gate:
                async with self._slots:
                    if self._stopped.is_set():
                        return None
                    await gate.enter_async_context(self._gate())
                    number += 1
                    outcome, pause_s = await self._attempt(command, outcome, number)
                # The slot is free during the report, so attempts do not wait for Kafka.
                if pause_s is None:
                    return await self._finish(outcome)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopped.wait()

    async def _attempt(
        self, command: Command, last_outcome: CommandOutcome | None, number: int
    ) -> tuple[CommandOutcome, float | None]:
        """Make one attempt and return its outcome, and the pause before another attempt (None: final).

        `last_outcome` is the outcome of the previous attempt; it counts if the command has expired.
        """
        if isinstance(command, EvictionCommand) and command.dry_run:
            return self._outcome(command, "dry", "dry run: not executed"), None
        late_ms = self._late_ms(command)
        if late_ms is not None:
            reason = f"the command expired {late_ms} ms ago"
            if last_outcome is None:
                return self._outcome(command, "expired", reason), None
            reason = f"{last_outcome.reason}; {reason}"
            return self._outcome(command, last_outcome.result, reason), None
        try:
            if isinstance(command, EvictionCommand):
                attempt = await self._sink.evict(command)
            else:
                attempt = await self._sink.bind(command)
        except (SinkError, OSError) as error:
            attempt = Attempt("failed", str(error) or type(error).__name__)
        if attempt.again_in_s is None:
            outcome = self._outcome(
                command, attempt.result, attempt.reason, pod_gone=attempt.pod_gone
            )
            return outcome, None
        pause_s = max(attempt.again_in_s, min(PAUSE_MAX_S, PAUSE_FIRST_S * 2 ** (number - 1)))
        if number >= ATTEMPTS_MAX or self._late_ms(command, pause_s) is not None:
            reason = f"{attempt.reason}; given up after attempt {number}"
            return self._outcome(command, attempt.result, reason), None
        return self._outcome(command, attempt.result, attempt.reason), pause_s

    def _late_ms(self, command: Command, after_s: float = 0.0) -> int | None:
        """Return how long after its expiry the command will be then; None: it will not be expired."""
        if command.expires_at_ms is None:
            return None
        late_ms = self.now_ms + int(1000 * after_s) - command.expires_at_ms
        return late_ms if late_ms >= 0 else None

    @asynccontextmanager
    async def _turn(self, uid: str) -> AsyncIterator[None]:
        """Wait until no other command of this pod is executing."""
        lock, users = self._turns.get(uid, (asyncio.Lock(), 0))
        self._turns[uid] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            users = self._turns[uid][1] - 1
            if users:
                self._turns[uid] = (lock, users)
            else:
                del self._turns[uid]

    def _make_room(self) -> bool:
        """Forget old ids; tell whether there is room for another one."""
        # Two per new id, so that the backlog of old ids shrinks.
        for command_id, until_ms in list(islice(self._ids.items(), 2)):
            if until_ms <= self.now_ms:
                del self._ids[command_id]
        return len(self._ids) < IDS_MAX

    def _outcome(
        self, command: Command, result: str, reason: str, *, pod_gone: bool = False
    ) -> CommandOutcome:
        pod = command.pod
        return CommandOutcome.model_validate(
            {
                "command_id": _id(command),
                "cluster": self._cluster,
                "command": "evict" if isinstance(command, EvictionCommand) else "bind",
                "pod": PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid),
                "node": command.node,
                "result": result,
                "reason": reason[:_REASON_MAX],
                "pod_gone": pod_gone,
                "happened_at_ms": self.now_ms,
            }
        )


def _id(command: Command) -> str:
    if isinstance(command, EvictionCommand):
        return command.command_id
    return command.decision_id
