"""Who runs the workers of a chaos run: one that has lost what it held is started again, any other
end is a fault."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.settings.connection import KafkaSettings
from streams.worker.store.publisher import LostOwnership
from tests.chaos.member import Member
from tests.chaos.plan import SCENARIOS
from tests.streams.worker_process import Worker

_LAST_LINE = '{{"event": "the worker was stopped by {}: found out"}}'


def _ended(directory: Path, reason: str, workers: int) -> Member:
    """A member whose worker writes a last line and ends, and which is started again as one that
    goes on."""
    kafka = KafkaSettings.local("127.0.0.1:1")
    member = Member(kafka, directory / "member", replace(SCENARIOS[0], workers=workers))
    once = directory / "once"
    program = (
        f"import pathlib, sys, time; once = pathlib.Path({str(once)!r}); "
        "again = once.exists(); once.touch(); "
        f"again or sys.exit(print({_LAST_LINE.format(reason)!r}) or 1); time.sleep(60)"
    )
    member.worker = Worker(kafka, directory, ("-c", program))
    member.start()
    while not member.worker.ended:
        time.sleep(0.05)
    return member


def test_a_worker_that_has_lost_what_it_held_is_started_again_and_counted(tmp_path: Path) -> None:
    member = _ended(tmp_path, LostOwnership.__name__, workers=2)
    try:
        assert member.check()
        assert not member.worker.ended
        assert not member.check()
    finally:
        member.worker.kill()


@pytest.mark.parametrize(
    ("reason", "workers", "fault"),
    [("LostOwnership", 2, False), ("LostOwnership", 1, True), ("JournalDamaged", 2, True)],
)
def test_a_worker_that_is_asked_to_stop_ends_cleanly_or_has_lost_what_it_held(
    reason: str, workers: int, fault: bool, tmp_path: Path
) -> None:
    wrong = _ended(tmp_path, reason, workers).stopped()
    assert (wrong is not None) is fault
    assert wrong is None or "ended with code 1 on SIGTERM" in wrong


class _EndsMeanwhile(Worker):
    """Ends while its log is read."""

    def whole_log(self) -> str:
        text = super().whole_log()
        while not self.ended:
            time.sleep(0.01)
        return text


def test_a_worker_that_gives_up_while_it_is_looked_at_is_no_fault(tmp_path: Path) -> None:
    kafka = KafkaSettings.local("127.0.0.1:1")
    member = Member(kafka, tmp_path / "member", replace(SCENARIOS[0], workers=2))
    last = _LAST_LINE.format(LostOwnership.__name__)
    program = (
        f"import time; print('begins', flush=True); time.sleep(0.5); exit(print({last!r}) or 1)"
    )
    member.worker = _EndsMeanwhile(kafka, tmp_path, ("-c", program))
    member.start()
    try:
        deadline_s = time.monotonic() + 60
        while not member.check():
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    finally:
        member.worker.kill()


@pytest.mark.parametrize(("reason", "workers"), [("JournalDamaged", 2), ("LostOwnership", 1)])
def test_a_worker_that_ends_otherwise_or_that_nobody_can_have_succeeded_is_a_fault(
    tmp_path: Path, reason: str, workers: int
) -> None:
    member = _ended(tmp_path, reason, workers)
    with pytest.raises(AssertionError, match="the worker has died"):
        member.check()
