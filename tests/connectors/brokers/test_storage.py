"""Formatted storage: Kafka's tool runs once, and every broker has its own storage."""

import errno
import os
from pathlib import Path

import pytest

from connectors.brokers.storage import Broker, format_storage

_MAVEN = """#!/bin/sh
for each; do case $each in -DoutputDirectory=*) mkdir "${each#*=}";; esac; done
"""
#: Writes the files of Kafka's tool into its working directory.
_JAVA = """#!/bin/sh
echo "$@" >> "$JAVA_CALLS"
mkdir data
echo features > data/bootstrap.checkpoint
echo directory.id=formatted > data/meta.properties
"""


@pytest.fixture
def calls(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File with a line for each run of a fake tool; the cache is empty."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("java", _JAVA), ("mvn", _MAVEN)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_CALLS", str(tmp_path / "calls"))
    assert not cache.exists()
    return tmp_path / "calls"


def _broker(directory: Path, number: int) -> Broker:
    member = Broker(directory / f"broker-{number}", number, {})
    member.directory.mkdir()
    return member


def _meta(member: Broker) -> dict[str, str]:
    lines = (member.directory / "data" / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_the_tool_runs_once_and_each_broker_has_its_own_id(calls: Path, tmp_path: Path) -> None:
    members = [_broker(tmp_path, number) for number in (1, 2, 3)]
    for member in members:
        format_storage(member, {})
    assert len(calls.read_text().splitlines()) == 1
    kept = [(member.directory / "data" / "bootstrap.checkpoint").read_text() for member in members]
    assert kept == ["features\n"] * 3
    assert len({_meta(member)["directory.id"] for member in members}) == 3
    assert [_meta(member)["node.id"] for member in members[1:]] == ["2", "3"]


def test_a_cache_on_a_read_only_file_system_does_not_stop_a_broker(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_unlink(self: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    def refuse_rename(source: Path, target: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", refuse_unlink)
    monkeypatch.setattr("shutil.copyfile", refuse_rename)
    member = _broker(tmp_path, 1)
    format_storage(member, {})
    assert _meta(member) == {"directory.id": "formatted"}
