"""The rules of every sink: which commands reach a cluster, and that each has one outcome.

    decision or command ──▶ CommandRules ──▶ Sink (bind, evict) ──▶ CommandOutcome, or None

- Once per id: a command that comes again has no effect and no second outcome. Ids are kept for
  `IDS_KEPT_MS` of the log's time after the command has expired.
- Expiry: compared with the newest record of topic `clock` in the command's partition, at the moment
  at which its turn has come. Time goes back only if several records in a row say that it was
  ahead.
- Dry runs never reach the sink.
- Many at once, `IN_FLIGHT_MAX` of them; of one pod one after the other, in the order of arrival.
- An attempt that may be repeated, as the sink says, is repeated with growing pauses until the
  command expires, at most `ATTEMPTS_MAX` times. The outcome is that of the last.
- A decision without a node is explained, in the turn of its pod; that has no outcome.
- Whatever the cluster does, its failure included, is an outcome and no exception.
- Epochs: a worker that has lost a partition cannot write to it, so commands carry no epoch. A sink
  that loses its partition calls `stop` before it gives it up: nothing is begun after that.

Not guaranteed: an outcome, if the process dies between the attempt and the report. The pod's uid is
a precondition of every attempt, so a copy of the command elsewhere repeats nothing. `remember`
takes what was reported before a restart.
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
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import PodRef

#: Time for which an id is kept after its command has expired: no delivery is later.
IDS_KEPT_MS = 3_600_000
#: Ids kept at most, about 100 bytes each: three hours of a cluster that places 100 pods a second.
IDS_MAX = 1_000_000
#: Attempts at once: they fill an API server on two cores; more would only wait there.
IN_FLIGHT_MAX = 64
#: Attempts at one command at most, a quarter of an hour with the pauses between them: a command may
#: have no expiry, and the log's clock may stand still.
ATTEMPTS_MAX = 100
#: Pauses between attempts, in seconds; each is twice as long as the one before.
PAUSE_FIRST_S, PAUSE_MAX_S = 0.25, 10.0
#: This many records of the clock in a row are too far behind the time for it to be right. One may be
#: of a worker that stood still and does not know yet that it has a successor.
TICKS_BEHIND = 3
#: Of a reason, what an outcome has room for.
_REASON_MAX = 2_000

Command = PlacementDecision | EvictionCommand


class CommandRules:
    """Stands before the sink of one cluster."""

    def __init__(
        self,
        cluster: str,
        sink: Sink,
        now_ms: int,
        *,
        gate: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        report: Callable[[CommandOutcome], Awaitable[None]] | None = None,
    ) -> None:
        """Stand before a sink.

        Args:
            cluster: only its commands are carried out.
            sink: carries them out.
            now_ms: the time of the newest record of topic `clock`.
            gate: is around each attempt and its report; what it raises comes out of `carry_out`,
                and the command was not tried, or not to its end.
            report: gets each outcome, before `carry_out` returns it.
        """
        self.now_ms = now_ms
        self._gate = gate
        self._report = report
        self._cluster = cluster
        self._sink = sink
        self._stopped = asyncio.Event()
        self._ids: dict[str, int] = {}
        """When each id may be forgotten, in the order of arrival."""
        self._behind = 0
        """Records of the clock in a row by which this time is ahead."""
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}
        """Of each pod under way, by uid: who is at work, and how many commands there are."""

    def clock(self, now_ms: int) -> None:
        """A record of topic `clock` says that it is `now_ms`.

        Time does not go back, unless several records in a row say that it was ahead: a stray one,
        which workers refuse, must not let all commands expire for as long as it is.
        """
        ahead = now_ms < self.now_ms - AHEAD_MAX_MS
        self._behind = self._behind + 1 if ahead else 0
        if now_ms >= self.now_ms or self._behind == TICKS_BEHIND:
            self.now_ms, self._behind = now_ms, 0

    def remember(self, command_id: str) -> None:
        """A command was carried out and reported before."""
        self._ids[command_id] = self.now_ms + IDS_KEPT_MS

    def stop(self) -> None:
        """Begin nothing any more; an attempt that is under way comes to its end."""
        self._stopped.set()

    async def carry_out(self, command: Command) -> CommandOutcome | None:
        """Carry out a command if the rules allow it.

        None: there is nothing to report. It is of another cluster, places no pod, came before, or
        `stop` came before its turn, or between two attempts.
        """
        if command.cluster != self._cluster or self._stopped.is_set():
            return None
        if isinstance(command, PlacementDecision) and command.outcome != "placed":
            await self._explain(command)
            return None
        command_id = _id(command)
        if command_id in self._ids:
            return None
        has_room = self._room()
        if has_room:
            self._ids[command_id] = max(self.now_ms, command.expires_at_ms or 0) + IDS_KEPT_MS
        async with self._turn(command.pod.uid):
            outcome = await self._attempts(command, has_room=has_room)
        if outcome is None:
            self._ids.pop(command_id, None)
        return outcome

    async def _explain(self, decision: PlacementDecision) -> None:
        async with self._turn(decision.pod.uid), self._gate():
            if not self._stopped.is_set():
                await self._sink.explain(decision)

    async def _attempts(self, command: Command, *, has_room: bool) -> CommandOutcome | None:
        """Attempts until one is final, and its report; None: `stop` came before that."""
        outcome: CommandOutcome | None = None
        number = 0
        while True:
            async with AsyncExitStack() as gate:
                async with self._slots:
                    if self._stopped.is_set():
                        return None
                    await gate.enter_async_context(self._gate())
                    number += 1
                    if has_room:
                        outcome, pause_s = await self._attempt(command, outcome, number)
                    else:
                        why = f"{IDS_MAX} commands are remembered already"
                        outcome, pause_s = self._outcome(command, "refused", why), None
                # The cluster need not wait for Kafka: a report takes no place of an attempt.
                if pause_s is None:
                    if self._report is not None:
                        await self._report(outcome)
                    return outcome
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopped.wait()

    async def _attempt(
        self, command: Command, before: CommandOutcome | None, number: int
    ) -> tuple[CommandOutcome, float | None]:
        """One attempt; its outcome, and after how many seconds there may be another one.

        `before` is the outcome of the attempt before it, which stands if there is no time left.
        """
        if isinstance(command, EvictionCommand) and command.dry_run:
            return self._outcome(command, "dry", "dry run: taken note of"), None
        late_ms = self._late_ms(command)
        if late_ms is not None:
            why = f"its time ran out {late_ms} ms ago"
            if before is None:
                return self._outcome(command, "expired", why), None
            return self._outcome(command, before.result, f"{before.reason}; {why}"), None
        try:
            if isinstance(command, EvictionCommand):
                answer = await self._sink.evict(command)
            else:
                answer = await self._sink.bind(command)
        except (SinkError, OSError) as error:
            answer = Attempt("failed", str(error) or type(error).__name__)
        if answer.again_in_s is None:
            found = self._outcome(command, answer.result, answer.reason, pod_gone=answer.pod_gone)
            return found, None
        pause_s = max(answer.again_in_s, min(PAUSE_MAX_S, PAUSE_FIRST_S * 2 ** (number - 1)))
        if number >= ATTEMPTS_MAX or self._late_ms(command, pause_s) is not None:
            why = f"{answer.reason}; given up after attempt {number}"
            return self._outcome(command, answer.result, why), None
        return self._outcome(command, answer.result, answer.reason), pause_s

    def _late_ms(self, command: Command, after_s: float = 0.0) -> int | None:
        """For how long it will have been expired after that time; None: it will not."""
        if command.expires_at_ms is None:
            return None
        late_ms = self.now_ms + int(1000 * after_s) - command.expires_at_ms
        return late_ms if late_ms >= 0 else None

    @asynccontextmanager
    async def _turn(self, uid: str) -> AsyncIterator[None]:
        """Wait until no other command of this pod is under way."""
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

    def _room(self) -> bool:
        """Forget ids whose time is over; whether there is room for one more."""
        oldest = list(islice(self._ids.items(), 2))  # more go than come, so all go in time
        for command_id, until_ms in oldest:
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
