"""The part of a chaos run with running brokers and workers: load, faults, and a clean stop."""

import asyncio
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from connectors.brokers.server import KafkaServer
from connectors.brokers.storage import Broker
from tests.chaos.load import Load
from tests.chaos.member import Member
from tests.chaos.plan import CHANGES, Change, Fault, Plan
from tests.chaos.surroundings import Surroundings
from tests.chaos.watched import Phase

#: Longest wait for decisions after a fault, and for all pods to have a node at the end.
_PATIENCE_S = 240.0
#: Pods that fill the nodes, though some of them end in the meantime.
_ASKED_MIN = 700
#: Longest wait for a batch in flight; then the fault happens anyway.
_AIM_S = 10.0
#: A decision that comes this much later than an event was made after the event.
_ON_ITS_WAY_S = 0.5
#: How long a worker is suspended: longer than its session of 6 s.
_STALL_S = 9.0
#: A broker with a full disk that runs longer than this is killed.
_GIVES_UP_S = 30.0
#: Faults that wait for a batch in flight.
_KILLS = frozenset({"kill -9", "kill -9 twice"})

Say = Callable[[str], None]


@dataclass
class Ended:
    """The state of a worker when a fault happened."""

    ending: str
    phase: Phase
    """Where the batch was; of the worker that was ended, or of any where a broker was."""
    migrating: int = 0
    """Migrations, dry ones left out, that were under way."""
    silence_s: float = 0.0
    """Until decisions came from every partition again, its own return included."""


class Session:
    """The part of a run with running brokers and workers."""

    def __init__(
        self,
        plan: Plan,
        load: Load,
        server: KafkaServer,
        members: list[Member],
        surroundings: Surroundings,
        say: Say,
    ) -> None:
        self._plan, self._load, self._server = plan, load, server
        self._members, self._say = members, say
        self._surroundings = surroundings
        self.ended: list[Ended] = []
        self.gave_up = 0
        """How often a worker has lost what it held, and was started again."""
        self.load_ended_s = 0.0

    async def go(self) -> list[str]:
        """Run load and faults, end the load, stop cleanly; return the problems."""
        tasks = [asyncio.create_task(self._load.run()), asyncio.create_task(self._load.listen())]
        try:
            await self._decides_everywhere(tasks)
            for fault in self._plan.faults():
                await asyncio.sleep(fault.after_s)
                if fault.ending in CHANGES:
                    await self._change(cast("Change", fault.ending), tasks)
                else:
                    await self._end(fault, tasks)
            await self._goes_deep(tasks)
            self._load.stop()
            self.load_ended_s = time.monotonic()
            await tasks[0]
            await self._load.clear()
            self._say(f"{len(self._load.requested)} pods asked for, {len(self._load.waiting)} wait")
            return [*await self._settled(tasks), *await asyncio.to_thread(self._stop)]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _change(self, change: Change, tasks: list[asyncio.Task[None]]) -> None:
        """Change topics or clock, wait for the notice, apply the remedy, and wait for decisions."""
        began_s = time.monotonic()
        seen_s = await self._surroundings.change(change)
        back_s = await self._decides_everywhere(tasks) - began_s
        self._say(
            f"{change}: noticed after {seen_s:.1f} s, decisions of every partition after {back_s:.1f} s"
        )

    async def _end(self, fault: Fault, tasks: list[asyncio.Task[None]]) -> None:
        """End a worker or broker, wait for decisions from every partition, and start it again."""
        of_broker = fault.ending in ("broker", "disk full")
        if self._plan.scenario.workers > 1 and not of_broker:
            fault = replace(fault, target=await self._busy(fault.target))
        members = self._members if of_broker else [self._members[fault.target]]
        await self._aim(fault, members)
        began_s = time.monotonic()
        match fault.ending:
            case "broker":
                self._server.members[fault.target].kill()
            case "disk full":
                _fill_disk(self._server.members[fault.target].pid)
            case "kill -9" | "kill -9 twice":
                members[0].worker.kill()
            case "SIGTERM":
                members[0].worker.ask_to_stop()
            case "stall":
                members[0].worker.stall()
        phase = max(member.mark.phase for member in members)
        ended = Ended(fault.ending, phase, self._load.evictor.live)
        self.ended.append(ended)
        ended.silence_s = await self._bring_back(fault, tasks) - began_s
        self._say(
            f"{fault.ending} of {fault.target}: batch {ended.phase.name.lower()}, "
            f"{ended.migrating} migrations live, "
            f"decisions of every partition after {ended.silence_s:.1f} s"
        )

    async def _bring_back(self, fault: Fault, tasks: list[asyncio.Task[None]]) -> float:
        """Return the time at which all partitions have decisions again."""
        if fault.ending == "broker" and self._plan.scenario.brokers == 1:
            await asyncio.sleep(fault.away_s)
            await asyncio.to_thread(self._server.start_broker, fault.target)
            return await self._decides_everywhere(tasks)
        if fault.ending == "broker":
            # The other workers must continue without it.
            back_s = await self._decides_everywhere(tasks)
            await asyncio.to_thread(self._server.start_broker, fault.target)
            return back_s
        if fault.ending == "disk full":
            await self._gave_up(self._server.members[fault.target])
            await asyncio.sleep(fault.away_s)
            await asyncio.to_thread(self._server.start_broker, fault.target)
            return await self._decides_everywhere(tasks)
        member = self._members[fault.target]
        worker = member.worker
        if fault.ending == "stall":
            # The others take over its partitions before it continues.
            await asyncio.sleep(_STALL_S)
            back_s = await self._decides_everywhere(tasks)
            worker.resume()
            await asyncio.sleep(fault.away_s)
            await self._decides_everywhere(tasks)
            return back_s
        if fault.ending == "SIGTERM":
            wrong = await asyncio.to_thread(member.stopped)
            assert wrong is None, f"worker {fault.target} {wrong}"
        await asyncio.sleep(fault.away_s)
        member.start()
        if fault.ending == "kill -9 twice":
            await asyncio.sleep(fault.again_after_s)
            worker.kill()
            phase = member.mark.phase
            live = self._load.evictor.live
            self.ended.append(Ended(fault.ending, phase, live))
            self._say(
                f"killed again after {fault.again_after_s:.1f} s: batch {phase.name.lower()}, "
                f"{live} migrations live"
            )
            member.start()
        return await self._decides_everywhere(tasks)

    async def _gave_up(self, broker: Broker) -> None:
        """Wait until a broker that cannot write has ended; kill it if it does not end."""
        deadline_s = time.monotonic() + _GIVES_UP_S
        while broker.pid is not None:
            if time.monotonic() > deadline_s:
                self._say(f"broker {broker.number} goes on without writing; it is killed")
                broker.kill()
                return
            await asyncio.sleep(0.1)

    async def _busy(self, otherwise: int) -> int:
        """Return a worker with a batch, preferably this one: a restarted worker may have no partition yet."""
        deadline_s = time.monotonic() + _AIM_S
        order = sorted(enumerate(self._members), key=lambda item: item[0] != otherwise)
        while time.monotonic() < deadline_s:
            for number, member in order:
                if member.mark.phase is not Phase.IDLE and not member.worker.ended:
                    return number
            await asyncio.sleep(0)
        return otherwise

    async def _aim(self, fault: Fault, members: list[Member]) -> None:
        """Wait until a batch stays in flight for a moment, or until the time is over.

        Suspends a worker that is to be killed, since this process may be delayed, too.
        """
        deadline_s = time.monotonic() + _AIM_S
        while time.monotonic() < deadline_s:
            if _in_flight(members):
                time.sleep(fault.into_batch_s)
                if _in_flight(members):
                    if fault.ending not in _KILLS:
                        return
                    members[0].worker.stall()
                    if _in_flight(members):
                        return
                    members[0].worker.resume()
            await asyncio.sleep(0)

    async def _decides_everywhere(self, tasks: list[asyncio.Task[None]]) -> float:
        """Wait until every partition has a decision made from now on; return the time."""
        since_s = time.monotonic() + _ON_ITS_WAY_S
        deadline_s = time.monotonic() + _PATIENCE_S
        while (
            len(self._load.decided_at_s) < self._plan.partitions
            or min(self._load.decided_at_s.values()) < since_s
        ):
            self._check(tasks)
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"no decisions of some partitions for {_PATIENCE_S:.0f} s")
            await asyncio.sleep(0.02)
        return time.monotonic()

    async def _goes_deep(self, tasks: list[asyncio.Task[None]]) -> None:
        """Continue the load until a pod was evicted and pods fill the nodes, which a slow machine
        reaches late.
        """
        deadline_s = time.monotonic() + _PATIENCE_S
        load = self._load
        while not load.evictor.executed or len(load.requested) < _ASKED_MIN:
            self._check(tasks)
            if time.monotonic() > deadline_s:
                return
            await asyncio.sleep(0.1)

    async def _settled(self, tasks: list[asyncio.Task[None]]) -> list[str]:
        deadline_s = time.monotonic() + _PATIENCE_S
        while not await self._load.settle():
            self._check(tasks[1:])
            if time.monotonic() > deadline_s:
                waiting = self._load.waiting
                behind = [] if waiting else await self._load.unapplied()
                return [
                    f"after {_PATIENCE_S:.0f} s {len(waiting)} pods have no node: {waiting[:5]}; "
                    f"not applied: {behind}"
                ]
            await asyncio.sleep(0.1)
        return []

    def _stop(self) -> list[str]:
        """Stop all workers cleanly at once."""
        stopping: dict[int, Member] = {}
        for number, member in enumerate(self._members):
            if member.check():
                # A process that has just started has no clean end yet.
                member.worker.kill()
            else:
                member.worker.ask_to_stop()
                stopping[number] = member
        stopped = [(number, member.stopped()) for number, member in stopping.items()]
        return [f"worker {number} {wrong}" for number, wrong in stopped if wrong is not None]

    def _check(self, tasks: list[asyncio.Task[None]]) -> None:
        for number, member in enumerate(self._members):
            if member.check():
                self.gave_up += 1
                self._say(f"worker {number} gave up what it held, and was started again")
        for task in tasks:
            if task.done():
                task.result()


def _in_flight(members: list[Member]) -> bool:
    return any(member.mark.phase is not Phase.IDLE for member in members)


def _fill_disk(pid: int | None) -> None:
    """Let each write of the process to a file fail, as on a full disk.

    Mounting a small disk needs rights that most test machines do not give.
    """
    assert pid is not None, "the broker does not run"
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
