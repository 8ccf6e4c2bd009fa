"""A local broker announces its address while it runs."""

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from schemas.settings.announcement import (
    AlreadyAnnounced,
    announce,
    announcement_file,
    cache_directory,
    find_announced,
)


def test_an_address_is_announced_while_its_broker_runs(cache: Path) -> None:
    assert find_announced() is None
    with announce("127.0.0.1:1") as path:
        assert path == announcement_file() == cache / "broker"
        assert find_announced() == "127.0.0.1:1"
        # Reading does not take the lock of the broker.
        assert find_announced() == "127.0.0.1:1"
    assert find_announced() is None
    with announce("127.0.0.1:2"):
        assert find_announced() == "127.0.0.1:2"


def test_a_second_broker_is_refused_with_the_address_of_the_first(cache: Path) -> None:
    with announce("127.0.0.1:1"):
        with pytest.raises(AlreadyAnnounced, match=r"127\.0\.0\.1:1"), announce("127.0.0.1:2"):
            pass
        assert find_announced() == "127.0.0.1:1"


def test_a_starting_broker_waits_for_readers_of_the_address(cache: Path) -> None:
    cache.mkdir()
    with announcement_file().open("w") as reading:
        fcntl.flock(reading, fcntl.LOCK_SH)  # as `find_announced` does, for a moment
        threading.Timer(0.1, fcntl.flock, (reading, fcntl.LOCK_UN)).start()
        with announce("127.0.0.1:4"):
            assert find_announced() == "127.0.0.1:4"


_ANNOUNCER = """
import sys, time
from schemas.settings.announcement import announce
with announce("127.0.0.1:3"):
    print("up", flush=True)
    time.sleep(600)
"""


def test_a_killed_broker_leaves_no_address_behind(cache: Path) -> None:
    process = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", _ANNOUNCER], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert find_announced() == "127.0.0.1:3"
    finally:
        process.kill()
        process.communicate()
    assert announcement_file().read_text() == "127.0.0.1:3\n"
    assert find_announced() is None


def test_the_cache_directory_can_be_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADSTREAM_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path
    monkeypatch.delenv("LOADSTREAM_CACHE")
    assert cache_directory() == Path(__file__).parents[3] / ".cache"
