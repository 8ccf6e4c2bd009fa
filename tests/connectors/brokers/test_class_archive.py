"""The class archive is created once, and brokers do not depend on it."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.brokers.class_archive import prepare_class_archive
from connectors.brokers.distribution import fetch_jars
from connectors.brokers.server import KafkaServer
from tests.conftest import running

_MADE_WITH = "-XX:ArchiveClassesAtExit="


_MAVEN = """#!/bin/sh
for each; do case $each in -DoutputDirectory=*) mkdir "${each#*=}";; esac; done
"""


@pytest.fixture
def jars(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of jars in a separate cache, and a Java that is never run."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("java", "#!/bin/sh\nexit 1\n"), ("mvn", _MAVEN)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    directory = fetch_jars()
    assert directory.is_relative_to(cache)
    (directory / "kafka.jar").write_bytes(b"classes")
    return directory


def _trainer(content: bytes, calls: list[str]) -> Callable[[str], None]:
    def train(option: str) -> None:
        calls.append(option)
        Path(option.removeprefix(_MADE_WITH)).write_bytes(content)

    return train


def _archive(options: tuple[str, ...]) -> Path:
    return Path(options[0].removeprefix("-XX:SharedArchiveFile="))


@pytest.mark.usefixtures("jars")
def test_an_archive_is_created_once() -> None:
    calls: list[str] = []
    train = _trainer(b"classes", calls)
    options = prepare_class_archive(train)
    assert _archive(options).read_bytes() == b"classes"
    assert prepare_class_archive(train) == options
    assert len(calls) == 1


@pytest.mark.usefixtures("jars")
def test_a_broker_started_during_the_creation_runs_without_the_archive() -> None:
    begun, end = threading.Event(), threading.Event()
    calls: list[str] = []

    def train_slowly(option: str) -> None:
        begun.set()
        assert end.wait(60)
        _trainer(b"classes", calls)(option)

    maker = threading.Thread(target=prepare_class_archive, args=(train_slowly,))
    maker.start()
    assert begun.wait(60)
    assert prepare_class_archive(_trainer(b"never", calls)) == ()
    end.set()
    maker.join()
    assert _archive(prepare_class_archive(_trainer(b"never", calls))).read_bytes() == b"classes"


@pytest.mark.usefixtures("jars")
def test_a_broker_starts_if_the_archive_cannot_be_written() -> None:
    def fail_on_full_disk(option: str) -> None:
        raise OSError(28, "No space left on device")

    assert prepare_class_archive(fail_on_full_disk) == ()
    assert prepare_class_archive(_trainer(b"classes", []))


def _try_again() -> None:
    """Make a failed creation old, so that the next start retries it."""
    for archive in fetch_jars().parent.glob("*.jsa"):
        if not archive.stat().st_size:
            os.utime(archive, (0, 0))


@pytest.mark.kafka
def test_a_broker_starts_with_the_archive(tmp_path: Path) -> None:
    # In a new checkout the broker of another test may still be creating the archive.
    for attempt in range(60):
        with running(KafkaServer(tmp_path / str(attempt))) as server:
            mapped = Path(f"/proc/{server.pid()}/maps").read_text()
        if server.java_options:
            break
        _try_again()
    assert str(_archive(server.java_options or ())) in mapped
