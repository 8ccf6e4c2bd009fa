"""Cached files are created once by concurrent processes, and child processes end with their parent."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from connectors.process.child_process import create_once
from tests.conftest import eventually


def test_concurrent_callers_wait_for_one_creator(tmp_path: Path) -> None:
    paths: list[Path] = []

    def make(path: Path) -> None:
        paths.append(path)
        time.sleep(0.05)
        path.write_text("whole")

    kept, seen = tmp_path / "cache" / "kept", list[str]()
    threads = [
        threading.Thread(target=lambda: seen.append(create_once(kept, make).read_text()))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paths == [kept]
    assert seen == ["whole"] * 4


def test_a_failed_creation_is_retried(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        raise OSError("no room")

    kept = tmp_path / "kept"
    with pytest.raises(OSError, match="no room"):
        create_once(kept, fail)
    assert create_once(kept, lambda path: path.mkdir()).is_dir()


_PARENT = """
import pathlib, sys, time
from connectors.process.child_process import ChildProcess

class Sleep(ChildProcess):
    def command(self):
        return ["sleep", "600"]

child = Sleep(pathlib.Path(sys.argv[1]))
child.launch()
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_child_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", _PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    try:
        child = int(parent.stdout.readline())
        assert _is_alive(child)
    finally:
        parent.kill()
        parent.communicate()
    assert eventually(lambda: not _is_alive(child))


def _is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
