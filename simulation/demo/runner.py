"""Runs a scenario: broker, worker process and clock around a session.

The scenario's clock runs at its speed as long as the worker keeps up. Where it falls behind, the
clock is held until it has caught up, because the embedded broker keeps only about 5 MB a partition:
a slow machine gets through less of the scenario, not through a broken one. Whatever happens, the
broker and the worker are gone at the end, and the end comes within two minutes, but for the
comparison.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.brokers.embedded import EmbeddedBroker
from connectors.kafka.topics import EMBEDDED_PARTITIONS
from connectors.kafka.wire import Wire
from schemas.announcement import AlreadyAnnounced, announce
from schemas.base import Message
from schemas.codec import encode
from schemas.decisions import PlacementDecision
from schemas.evictions import EvictionCommand
from schemas.rounds import RebalanceRound
from schemas.usage import NodeUsage
from simulation.demo.display import Display
from simulation.demo.scenario import Scenario
from simulation.demo.session import READ_TOPICS, Session
from simulation.demo.status import Phase, Status
from simulation.demo.worker import WorkerProcess

#: Real time between two steps of the scenario's clock. The embedded broker hands out one produced
#: batch of a partition at a fetch, so a few large batches get through it faster than many small
#: ones.
_STEP_S = 0.08
#: A pause of this process is no time of the scenario.
_STEP_MAX_S = 0.2
#: The worker must answer within this time.
_START_TIMEOUT_S = 50.0
#: It must answer again within this time while the clock is held.
_SILENCE_TIMEOUT_S = 20.0
#: After the last step answers are waited for.
_CLOSING_S = 5.0
#: Longest run, from the start of the broker; the rest of two minutes is for the end.
TOTAL_MAX_S = 98.0
#: Real seconds of the scenario that the worker may be behind before the clock is held.
_BEHIND_MAX_S = 1.0
#: Time for which a word of the cluster stage says how far behind the worker is.
_NEWS_S = 0.5
#: What is written down as it is read, and where.
_KEPT: dict[type[Message], str] = {
    PlacementDecision: "decisions.jsonl",
    EvictionCommand: "evictions.jsonl",
    RebalanceRound: "rounds.jsonl",
}
#: Before the worker has answered, the clock goes only this far.
_AHEAD_AT_START_MS = 15 * 60_000


class WorkerSilent(RuntimeError):
    """The worker runs and does not answer; the message holds the last lines of its log."""


@dataclass(frozen=True, slots=True)
class Run:
    """What is left of a run."""

    session: Session
    real_s: float
    """Real time from the worker's first answer to the end."""
    interrupted: bool


def run(
    scenario: Scenario,
    seconds: float,
    output: Path,
    display: Display,
    measured: Callable[[], NodeUsage] | None,
) -> Run:
    """Run a scenario for `seconds` and write decisions, evictions and rounds to `output`.

    Raises WorkerDied, WorkerSilent or WireError. An interrupt ends the run early and is no error.
    """
    policy = output / "policy.yaml"
    policy.write_text(scenario.policy_text, encoding="utf-8")
    with ExitStack() as stack:
        stack.enter_context(_terminable())
        broker = stack.enter_context(EmbeddedBroker())
        where = _announced(stack, broker.bootstrap_servers)
        settings = {
            "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "LOADSTREAM_KAFKA_PARTITIONS": str(EMBEDDED_PARTITIONS),
            "LOADSTREAM_LOG_FORMAT": "console",
            "LOADSTREAM_WORKER_CLOCK": "external",
            "LOADSTREAM_WORKER_COLLECT_FILE": str(policy.absolute()),
            "LOADSTREAM_WORKER_DATA_DIR": str((output / "worker").absolute()),
            # The embedded broker does not wake a waiting fetch.
            "LOADSTREAM_WORKER_FETCH_WAIT_MS": "10",
        }
        worker = stack.enter_context(WorkerProcess(settings, output / "worker.log"))
        wire = stack.enter_context(Wire(broker.settings, READ_TOPICS))
        kept = {
            kind: stack.enter_context((output / name).open("wb")) for kind, name in _KEPT.items()
        }
        session = Session(scenario, wire.send, EMBEDDED_PARTITIONS, measured)
        course = _Course(session, wire, worker, seconds, where)

        def keep(message: Any) -> None:
            if (file := kept.get(type(message))) is not None:
                file.write(encode(message) + b"\n")

        course.keep = keep
        try:
            with display:
                course.run(display)
            interrupted = False
        except KeyboardInterrupt:
            interrupted = True
        return Run(session, course.real_s, interrupted)


class _Course:
    """The loop of one run."""

    def __init__(
        self, session: Session, wire: Wire, worker: WorkerProcess, seconds: float, where: str
    ) -> None:
        self.keep: Callable[[Any], None] = lambda message: None
        self._session = session
        self._wire = wire
        self._worker = worker
        self._seconds = seconds
        self._where = where
        self._began_s = time.monotonic()
        self._first_answer_s: float | None = None
        self._last_answer_s = self._began_s

    @property
    def real_s(self) -> float:
        """Real time since the worker's first answer."""
        return 0.0 if self._first_answer_s is None else time.monotonic() - self._first_answer_s

    def run(self, display: Display) -> None:
        """From the first record to the last answer."""
        session, scenario = self._session, self._session.scenario
        session.begin()
        now_ms = float(session.now_ms)
        step_s = time.monotonic()
        while not session.over and not self._late():
            due_s = step_s + _STEP_S
            self._receive(max(0.0, due_s - time.monotonic()))
            elapsed_s, step_s = time.monotonic() - step_s, time.monotonic()
            held = self._held()
            if not held:
                now_ms += min(elapsed_s, _STEP_MAX_S) * scenario.speed * 1000
                now_ms = min(now_ms, self._furthest_ms())
                session.advance(round(now_ms), step_s)
            display.show(session, self._status("held" if held else "running"))
            self._check()
        deadline = time.monotonic() + _CLOSING_S
        self._wire.flush()
        while session.observed.unanswered and time.monotonic() < deadline:
            self._receive(_STEP_S)
            display.show(session, self._status("closing"))
            self._check()

    def _receive(self, timeout_s: float) -> None:
        for message, offset in self._wire.receive(timeout_s):
            real_s = time.monotonic()
            self._last_answer_s = real_s
            self._session.receive(message, offset, real_s)
            # Rounds need nothing but the clock; the run begins when both stages have spoken.
            if self._first_answer_s is None and self._session.observed.metrics:
                self._first_answer_s = real_s
            self.keep(message)

    def _furthest_ms(self) -> float:
        """Time that the scenario may reach now."""
        scenario = self._session.scenario
        newest_ms = self._session.observed.newest_metric_ms
        if newest_ms is None:
            return min(scenario.end_ms, scenario.begin_ms + _AHEAD_AT_START_MS)
        # A node's metric is as old as its report interval at most, and its samples are not dense.
        report_ms = 2 * scenario.policy.collect.metric_report_interval_seconds * 1000
        return min(scenario.end_ms, newest_ms + report_ms + _BEHIND_MAX_S * scenario.speed * 1000)

    def _held(self) -> bool:
        """Whether a stage of the worker is too far behind for the clock to go on."""
        observed, scenario = self._session.observed, self._session.scenario
        if self._session.now_ms >= self._furthest_ms():
            return True
        # Without news nothing is known of the cluster stage.
        if observed.heard_s is None or time.monotonic() - observed.heard_s > _NEWS_S:
            return False
        # By metrics that are older than its clock, or by a clock that is older than the scenario's:
        # evictions would be carried out long after they were commanded.
        behind_ms = max(observed.decided_behind_ms, observed.clock_behind_ms)
        expiration_ms = scenario.policy.load_aware.node_metric_expiration_seconds * 1000
        return behind_ms > expiration_ms // 2

    def _late(self) -> bool:
        return time.monotonic() - self._began_s > TOTAL_MAX_S

    def _status(self, phase: Phase) -> Status:
        real_s = self.real_s
        return Status(
            phase="starting" if self._first_answer_s is None else phase,
            real_s=real_s,
            seconds=self._seconds,
            speed=self._session.scenario.speed,
            samples_per_s=self._session.samples / real_s if real_s > 1 else 0.0,
            note=self._where,
        )

    def _check(self) -> None:
        """Raises WorkerDied or WorkerSilent."""
        self._worker.check()
        silent_s = time.monotonic() - self._last_answer_s
        patience_s = _START_TIMEOUT_S if self._first_answer_s is None else _SILENCE_TIMEOUT_S
        if silent_s > patience_s:
            raise WorkerSilent(
                f"the worker has not answered for {silent_s:.0f} s; {self._worker.last_words()}"
            )


def _announced(stack: ExitStack, bootstrap_servers: str) -> str:
    """Announce the broker, so that other commands find it; says how to look at its records."""
    look = "loadstream tail placement-decisions"
    try:
        stack.enter_context(announce(bootstrap_servers))
    except (AlreadyAnnounced, OSError):
        return (
            f"in a second terminal: LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS={bootstrap_servers} {look}"
        )
    return f"in a second terminal: {look}"


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does, with everything that was started."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
