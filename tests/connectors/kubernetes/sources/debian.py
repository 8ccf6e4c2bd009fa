"""Debian's package of Prometheus, unpacked into the cache without installing it."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from connectors.process.child_process import create_once
from schemas.settings.announcement import cache_directory

_FETCH_S = 300


class Unavailable(RuntimeError):
    """The package is not available on this machine; the message has the reason."""


def prometheus() -> Path:
    """Return the path of the server; the test is skipped without it, unless everything is required."""
    try:
        return _unpack("prometheus", "usr/bin/prometheus")
    except Unavailable as error:
        if os.environ.get("LOADSTREAM_REQUIRE_ALL") == "1":
            raise
        pytest.skip(f"no real Prometheus: {error}")


def _unpack(package: str, binary: str) -> Path:
    def unpack(directory: Path) -> None:
        with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
            _fetch(package, Path(scratch))
            (Path(scratch) / "root").rename(directory)

    return create_once(cache_directory() / f"debian-{package}", unpack) / binary


def _fetch(package: str, scratch: Path) -> None:
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise Unavailable(f"there is no {program}")
    try:
        _run(["apt-get", "download", package], scratch)
    except Unavailable:
        _run(["apt-get", "update"], scratch)  # a new machine has no package lists yet
        _run(["apt-get", "download", package], scratch)
    (archive,) = scratch.glob("*.deb")
    _run(["dpkg", "-x", str(archive), "root"], scratch)


def _run(command: list[str], where: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - the commands are those above
            command, cwd=where, capture_output=True, text=True, timeout=_FETCH_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{' '.join(command)} took longer than {_FETCH_S} s") from error
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
