"""Cached files are created once by concurrent processes."""

import threading
import time
from pathlib import Path

import pytest

from connectors.process.child_process import create_once


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
