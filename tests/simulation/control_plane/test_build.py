"""The control plane is built once, and again after a change of its sources.

A script that records each build replaces Go, whose real build takes minutes.
"""

import shutil
from pathlib import Path

import pytest

from simulation.control_plane.build import ControlPlaneUnavailable, build
from tests.conftest import CONTROL_PLANE_MODULE

_GO = """#!/bin/sh
case "$1" in
env) cat "$0.version" ;;
build)
    while [ "$1" != -o ]; do shift; done
    echo built >> "$0.builds"
    if [ -e "$0.fails" ]; then echo half > "$2"; echo "main.go:7: undefined: nonsense" >&2; exit 1; fi
    echo "program" > "$2"
    ;;
esac
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A copy of the Go module."""
    copy = tmp_path / "module"
    shutil.copytree(CONTROL_PLANE_MODULE, copy)
    return copy


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake Go that records its builds, the only Go on the PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    script = directory / "go"
    script.write_text(_GO)
    script.chmod(0o755)
    script.with_name("go.version").write_text("go1.26.8\n")
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return script


def _builds(go: Path) -> int:
    notes = go.with_name("go.builds")
    return len(notes.read_text().splitlines()) if notes.exists() else 0


def test_the_program_is_built_into_the_cache_once(module: Path, go: Path, cache: Path) -> None:
    binary = build(module)
    assert binary.parent == cache
    assert binary.read_text() == "program\n"
    assert build(module) == binary
    assert _builds(go) == 1


@pytest.mark.parametrize("changed", ["go.mod", "go.sum", "main.go"])
def test_a_changed_source_is_built_again(changed: str, module: Path, go: Path, cache: Path) -> None:
    before = build(module)
    with (module / changed).open("a") as source:
        source.write("\n")
    assert build(module) != before
    assert _builds(go) == 2


def test_a_failed_build_gives_the_reason_and_leaves_no_files(
    module: Path, go: Path, cache: Path
) -> None:
    go.with_name("go.fails").touch()
    with pytest.raises(ControlPlaneUnavailable, match=r"go build(.|\n)*undefined: nonsense"):
        build(module)
    assert [entry.name for entry in cache.iterdir() if entry.suffix != ".lock"] == []
    go.with_name("go.fails").unlink()
    assert build(module).read_text() == "program\n"
