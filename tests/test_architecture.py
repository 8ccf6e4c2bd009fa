"""Contracts of imports, which `lint-imports` checks in `make check`."""

import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("benchmarks", "connectors", "loadstream", "schemas", "streams")


def _lint(directory: Path, expected: int) -> str:
    done = subprocess.run(  # noqa: S603 - a command of our own environment
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=directory,
        env={"COLUMNS": "400", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout


def test_the_sources_keep_all_contracts() -> None:
    assert " 0 broken" in _lint(_ROOT, expected=0)


def test_there_are_no_circular_imports() -> None:
    graph = grimp.build_graph(*_PACKAGES, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_code_uses_wait_for_which_can_lose_a_cancellation() -> None:
    """In Python 3.11 it loses a cancellation if the result is available; `asyncio.timeout` does not."""
    imports_of_tests = [
        str(path.relative_to(_ROOT))
        for name in _PACKAGES
        for path in sorted((_ROOT / name).rglob("*.py"))
        if "asyncio.wait_for" in path.read_text(encoding="utf-8")
    ]
    assert imports_of_tests == []
