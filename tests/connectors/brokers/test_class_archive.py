"""The class archive: made once, and nobody waits for it or depends on it."""

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from connectors.brokers.class_archive import SILENT, prepare_class_archive
from connectors.brokers.distribution import KafkaUnavailable, fetch_jars
from connectors.brokers.server import KafkaServer, _train
from connectors.kafka.client import BrokerUnavailable
from connectors.process.child_process import ChildProcess
from tests.conftest import running, skipped_where_unavailable

_MADE_WITH = "-XX:ArchiveClassesAtExit="


_MAVEN = """#!/bin/sh
for each; do case $each in -DoutputDirectory=*) mkdir "${each#*=}";; esac; done
"""


@pytest.fixture
def jars(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of jars in a cache of its own, and a Java that is never run."""
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


def _writing(content: bytes, calls: list[str]) -> Callable[[str], None]:
    def train(option: str) -> None:
        calls.append(option)
        Path(option.removeprefix(_MADE_WITH)).write_bytes(content)

    return train


def _archive(options: tuple[str, ...]) -> Path:
    return Path(options[0].removeprefix("-XX:SharedArchiveFile="))


@pytest.mark.usefixtures("jars")
def test_an_archive_is_made_once() -> None:
    calls: list[str] = []
    train = _writing(b"classes", calls)
    options = prepare_class_archive(train)
    assert _archive(options).read_bytes() == b"classes"
    assert prepare_class_archive(train) == options
    assert len(calls) == 1


def test_another_jar_needs_another_archive(jars: Path) -> None:
    calls: list[str] = []
    train = _writing(b"classes", calls)
    first = prepare_class_archive(train)
    (jars / "kafka.jar").write_bytes(b"other classes")
    assert prepare_class_archive(train) != first
    assert len(calls) == 2


@pytest.mark.usefixtures("jars")
def test_who_comes_while_it_is_made_goes_without() -> None:
    begun, end = threading.Event(), threading.Event()
    calls: list[str] = []

    def slowly(option: str) -> None:
        begun.set()
        assert end.wait(60)
        _writing(b"classes", calls)(option)

    maker = threading.Thread(target=prepare_class_archive, args=(slowly,))
    maker.start()
    assert begun.wait(60)
    assert prepare_class_archive(_writing(b"never", calls)) == ()
    end.set()
    maker.join()
    assert _archive(prepare_class_archive(_writing(b"never", calls))).read_bytes() == b"classes"


@pytest.mark.usefixtures("jars")
def test_a_java_that_makes_none_is_asked_once() -> None:
    calls: list[str] = []

    def fail(option: str) -> None:
        calls.append(option)
        raise KafkaUnavailable("Unrecognized VM option")

    assert prepare_class_archive(fail) == ()
    assert prepare_class_archive(fail) == ()
    assert len(calls) == 1


@pytest.mark.parametrize(
    "error",
    [KafkaUnavailable("it ended"), BrokerUnavailable("no answer"), KafkaException("no broker")],
)
def test_a_java_of_which_no_archive_came_is_asked_again_a_day_later(
    jars: Path, error: Exception
) -> None:
    def fail(option: str) -> None:
        raise error

    assert prepare_class_archive(fail) == ()
    (empty,) = jars.parent.glob("*.jsa")
    os.utime(empty, (0, 0))
    calls: list[str] = []
    assert _archive(prepare_class_archive(_writing(b"classes", calls))).read_bytes() == b"classes"
    assert prepare_class_archive(fail)


@pytest.mark.usefixtures("jars")
def test_a_cache_that_takes_no_archive_does_not_stop_a_broker() -> None:
    def full(option: str) -> None:
        raise OSError(28, "No space left on device")

    assert prepare_class_archive(full) == ()
    assert prepare_class_archive(_writing(b"classes", []))


@pytest.mark.usefixtures("jars")
def test_a_run_that_was_killed_leaves_nothing_that_could_pass_for_an_archive() -> None:
    def killed(option: str) -> None:
        _writing(b"half", [])(option)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_class_archive(killed)
    calls: list[str] = []
    assert _archive(prepare_class_archive(_writing(b"whole", calls))).read_bytes() == b"whole"


@pytest.mark.kafka
def test_what_a_broker_wrote_that_was_killed_before_its_end_is_no_archive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with skipped_where_unavailable():
        fetch_jars()
    # Asked to stop, it might come to its end before it is killed.
    monkeypatch.setattr(ChildProcess, "ask_to_stop", lambda process: None)
    monkeypatch.setattr(ChildProcess, "wait_for_end", ChildProcess.kill)
    with pytest.raises(KafkaUnavailable, match="killed before"):
        _train("-Xlog:disable")


@pytest.mark.kafka
def test_an_archive_that_does_not_fit_is_passed_over_silently(tmp_path: Path) -> None:
    with skipped_where_unavailable():
        fetch_jars()
    wrong = tmp_path / "wrong.jsa"
    wrong.write_bytes(b"no archive" * 1000)
    done = subprocess.run(  # noqa: S603 - Java's version
        ["java", f"-XX:SharedArchiveFile={wrong}", SILENT, "-version"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    assert "warning" not in done.stdout + done.stderr


def _try_again() -> None:
    """At the next start, where none came of it since the machine was too busy: not only in a day."""
    for archive in fetch_jars().parent.glob("*.jsa"):
        if not archive.stat().st_size:
            os.utime(archive, (0, 0))


@pytest.mark.kafka
def test_a_broker_starts_with_the_archive(tmp_path: Path) -> None:
    # In a new checkout another test's broker may be making it; until then, brokers start without.
    for attempt in range(60):
        with running(KafkaServer(tmp_path / str(attempt))) as server:
            mapped = Path(f"/proc/{server.pid()}/maps").read_text()
        if server.java_options:
            break
        _try_again()
    assert str(_archive(server.java_options or ())) in mapped
