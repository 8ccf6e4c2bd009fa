"""This very machine, read from /proc: parsers, and the source on files of its own."""

import sys
from pathlib import Path

import pytest

from connectors.node_agent.this_machine import (
    Process,
    ThisMachine,
    heaviest,
    parse_process,
)
from tests.connectors.ports.usage_source_contract import UsageSourceContract, UsageSourceWorld

MEMINFO = (
    "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\nBuffers: 1 kB\n"
)


def _stat(pid: int, program: str, user: int, system: int, pages: int) -> str:
    return f"{pid} ({program}) S {'0 ' * 10}{user} {system} {'0 ' * 8}{pages} 0 0"


def test_a_program_may_be_called_anything() -> None:
    process = parse_process(_stat(7, "a) (b c", 30, 12, 2))
    assert process is not None
    assert (process.pid, process.program, process.ticks) == (7, "a-b-c", 42)
    assert process.memory_bytes > 0


@pytest.mark.parametrize("text", ["", "7 (x) S 1 2", "nothing"])
def test_what_is_no_process_is_left_out(text: str) -> None:
    assert parse_process(text) is None


def test_processes_of_one_program_are_told_together_the_foundfirst() -> None:
    before = [Process(1, "a", 100, 5), Process(2, "b", 0, 1)]
    now = [
        Process(1, "a", 120, 5),
        Process(3, "a", 10, 7),
        Process(2, "b", 50, 1),
        Process(4, "c", 9, 9),
    ]
    found = heaviest(before, now, 1.0)
    # A process that is new since the last look has no difference yet.
    assert [(app.name, app.usage["memory"]) for app in found] == [("b", 1), ("a", 12)]
    assert found[0].usage["cpu"] > found[1].usage["cpu"]


def _files(directory: Path, busy: int, idle: int) -> None:
    (directory / "stat").write_text(f"cpu {busy} 0 0 {idle}\n")
    (directory / "meminfo").write_text(MEMINFO)


def test_usage_is_the_share_of_busy_ticks_since_the_first_reading(tmp_path: Path) -> None:
    _files(tmp_path, 100, 100)
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "stat").write_text(_stat(12, "x", 1, 1, 1))
    (tmp_path / "13").mkdir()
    machine = _machine(tmp_path)
    assert machine.sample().usage["cpu"] == 0
    _files(tmp_path, 125, 175)
    sample = machine.sample()
    assert sample.usage["cpu"] == round(machine.millicores * 0.25)
    assert sample.usage["memory"] == 614_400
    assert sample.memory is not None
    assert sample.memory.usage_with_page_cache_bytes == 921_600


def test_a_counter_that_goes_back_is_no_negative_usage(tmp_path: Path) -> None:
    _files(tmp_path, 100, 100)
    machine = _machine(tmp_path)
    _files(tmp_path, 50, 400)
    assert machine.sample().usage["cpu"] == 0


def test_a_machine_without_these_files_says_so(tmp_path: Path) -> None:
    assert "only Linux" in ThisMachine.available(tmp_path)
    _files(tmp_path, 1, 1)
    assert ThisMachine.available(tmp_path) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_this_machine_can_be_read() -> None:
    machine = ThisMachine("c", "n")
    sample = machine.sample()
    assert 0 <= sample.usage["cpu"] <= machine.millicores
    assert 0 < sample.usage["memory"] < machine.memory_bytes


def _machine(proc: Path) -> ThisMachine:
    return ThisMachine("c", "n", proc)


class _World(UsageSourceWorld):
    cluster, nodes = "c", ("n",)

    def __init__(self, proc: Path) -> None:
        _files(proc, 100, 100)
        self.source = _machine(proc)

    async def pass_time(self) -> None:
        """It is measured whenever it is read."""


class TestThisMachine(UsageSourceContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> UsageSourceWorld:
        return _World(tmp_path)
