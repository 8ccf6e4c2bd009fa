"""What holds for every test of the suite."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from connectors.brokers.embedded import EmbeddedBroker
from simulation.control_plane.process import Part
from tests.conftest import COMPUTES_EVERY, ON_CONTROL_PLANE, SECURED_FILE, Groups

_ROOT = Path(__file__).parents[1]
_STARTERS = {"embedded", "clean_kafka", "broker", "kafka", "secured"}
_REAL = {"clean_kafka", "kafka", "secured"}

_SHOWS_SIGNALS = """
import subprocess, sys

def test_signals():
    program = (
        "import signal as s; print(*[s.getsignal(n) in (s.SIG_DFL, s.default_int_handler)"
        " for n in (s.SIGHUP, s.SIGINT, s.SIGQUIT, s.SIGTERM)])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert shown.stdout.split() == ["True"] * 4
"""
_IGNORES = """
import os, signal, sys
for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(each, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def _on_control_plane(item: pytest.Item) -> bool:
    return item.get_closest_marker("control_plane") is not None


def _tested(directory: Path, processes: tuple[str, ...], *program: str) -> str:
    """What pytest says of the tests in `suite` with our conftest; they pass.

    It lies below the root, as ours does: pytest asks it less than one of the root.
    """
    (directory / "suite" / "conftest.py").write_text("from tests.conftest import *\n")
    options = ("-q", "-p", "no:cacheprovider", *processes)
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, *program, "-m", "pytest", *options, "--rootdir", str(directory), "suite"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["alone", "among others"])
def test_children_of_tests_handle_signals_as_usual_whatever_the_starter_ignores(
    tmp_path: Path, processes: tuple[str, ...]
) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "test_signals.py").write_text(_SHOWS_SIGNALS)
    _tested(tmp_path, processes, "-c", _IGNORES)


_SHOWS_SERVERS = """
import pytest

running = []

@pytest.fixture(scope="session")
def kafka():
    running.append("kafka")
    yield running
    running.remove("kafka")

def test_first(kafka):
    assert running == ["kafka"]

def test_second(kafka):
    assert running == ["kafka"]

def test_third():
    assert not running
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["alone", "among others"])
def test_a_shared_server_stops_after_the_last_test_that_needs_it(
    tmp_path: Path, processes: tuple[str, ...]
) -> None:
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "test_servers.py").write_text(_SHOWS_SERVERS)
    assert "3 passed" in _tested(tmp_path, processes)


def test_tests_with_a_broker_are_marked_and_come_first(request: pytest.FixtureRequest) -> None:
    items = [each for each in request.session.items if not _on_control_plane(each)]
    marked = [item.get_closest_marker("broker") is not None for item in items]
    assert marked == sorted(marked, reverse=True)
    for broker in (True, False):
        slow = [
            item.get_closest_marker("slow") is not None
            for item, each in zip(items, marked, strict=True)
            if each is broker and not item.nodeid.startswith(SECURED_FILE)
        ]
        assert slow == sorted(slow, reverse=True)
    for item, broker in zip(items, marked, strict=True):
        fixtures = set(getattr(item, "fixturenames", ()))
        assert broker or not fixtures & _STARTERS, item.nodeid
        assert broker or item.get_closest_marker("kafka") is None, item.nodeid
        if fixtures & _REAL:
            assert item.get_closest_marker("kafka") is not None, item.nodeid


def test_one_process_runs_all_tests_of_the_secured_broker(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        if "secured" in getattr(item, "fixturenames", ()):
            assert item.nodeid.startswith(SECURED_FILE)


def test_one_process_runs_all_tests_of_the_control_plane_and_begins_with_them(
    request: pytest.FixtureRequest,
) -> None:
    items = request.session.items
    on_it = [_on_control_plane(item) for item in items]
    assert on_it == sorted(on_it, reverse=True)
    for item in items:
        if "control_plane" in getattr(item, "fixturenames", ()):
            assert _on_control_plane(item), item.nodeid
            assert ON_CONTROL_PLANE in item.nodeid.partition("[")[2]


class _Process:
    """A process of xdist, as far as it is handed tests."""

    shutting_down = False
    gateway = SimpleNamespace(id="of the test")

    def __init__(self) -> None:
        self.tests: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.tests += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_of_four_processes_one_begins_with_the_tests_at_the_end(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = [_Process() for _ in range(COMPUTES_EVERY + 1)]
    monkeypatch.setattr(request.config.option, "tx", [f"{len(processes)}*popen"])
    monkeypatch.setattr(request.config.option, "loadscopereorder", False)
    groups = Groups(request.config)
    tests = [f"test_{number}.py::test" for number in range(100)]
    for process in processes:
        groups.add_node(process)
        groups.add_node_collection(process, tests)
    groups.schedule()
    while left := [each for each in processes if not each.shutting_down]:
        for process in left:
            groups.mark_test_complete(process, process.tests[-1])
    assert sorted(test for process in processes for test in process.tests) == list(range(100))
    *front, back, last = processes
    assert back.tests == sorted(back.tests, reverse=True)
    assert back.tests[0] == 99
    for process in (*front, last):
        assert process.tests == sorted(process.tests)
        assert max(process.tests) < min(back.tests)


def test_a_test_without_the_mark_cannot_start_a_control_plane(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"pytest\.mark\.control_plane"):
        Part(tmp_path, Path("/bin/true"), "etcd", ()).start()


def test_a_test_without_the_mark_cannot_start_a_broker() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"pytest\.mark\.broker"):
        EmbeddedBroker().start()
