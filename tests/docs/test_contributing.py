"""What CONTRIBUTING claims of the code and of its tests."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

_PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
_PACKAGES = ("schemas", "streams", "connectors", "benchmarks")
#: Modules of schemas that may touch files or the environment; CONTRIBUTING names them.
_WITH_FILES = {"announcement", "connection", "environment", "examples", "export"}
_IO = {
    "aiohttp", "asyncio", "http", "io", "os", "pathlib", "shutil", "socket", "ssl", "subprocess", "tempfile",
    "threading", "time", "urllib",
}  # fmt: skip
#: Tests that are named after what they hold over several modules of their folder.
_OVER_MODULES = {
    "benchmarks": {"bench", "cluster_bench"},
    "connectors/brokers": {"brokers"},
    "connectors/demo": {"run", "worker_process"},
    "connectors/kafka": {"membership_faults", "security"},
    "connectors/kubernetes": {"whole"},
    "connectors/kubernetes/watch": {"control_plane"},
    "connectors/simulated": {"simulate_command"},
    "connectors/whynot": {"why_not"},
    "schemas": {"ajv", "fuzz"},
    "schemas/policy": {"documentation", "loadaware_golden", "roundtrip", "sections"},
    "streams": {
        "burst", "clock", "cycles", "large_records", "outage", "replay_checkpoints", "replay_command", "topics",
    },
    "streams/aggregate": {"takeover"},
    "streams/cluster": {
        "closed_loop", "containment", "empty_clusters", "exclusion_histories", "lists", "restores",
        "stage_histories", "waiting",
    },
    "streams/migration": {"counts", "histories", "paths", "turns", "waiting"},
    "streams/placement": {"estimates_by_fleet"},
    "streams/placement/plugins": {"load_aware_rules"},
    "streams/rebalance/thresholds": {"koordinator"},
}  # fmt: skip


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_the_folders_that_the_page_names_are_the_packages() -> None:
    named = re.findall(r"^    (\w+)/", _PAGE, re.MULTILINE)
    assert named == [*_PACKAGES[:3], "benchmarks", "tests"]
    assert all((ROOT / each).is_dir() for each in named)
    part = _PAGE.partition("    streams/")[2].partition("    connectors/")[0]
    lines = {path.name for path in (ROOT / "streams").iterdir() if (path / "__init__.py").exists()}
    roots = {"app", "cli"}
    assert set(re.findall(r"`(\w+)`", part)) == lines | roots


@pytest.mark.parametrize("package", _PACKAGES)
def test_tests_mirror_the_packages(package: str) -> None:
    """A test has the name of a module, or of what it holds over several modules of its folder."""
    wrong = []
    for test in sorted((ROOT / "tests" / package).rglob("test_*.py")):
        folder = test.parent.relative_to(ROOT / "tests")
        subject = test.stem.removeprefix("test_")
        module = ROOT / folder / subject
        known = module.with_suffix(".py").exists() or module.is_dir()
        if not known and subject not in _OVER_MODULES.get(str(folder), ()):
            wrong.append(str(test.relative_to(ROOT)))
    assert wrong == [], "rename it to the module that it tests, or name it in _OVER_MODULES"


def test_folders_of_tests_are_those_of_the_packages() -> None:
    folders = {
        test.parent for top in _PACKAGES for test in (ROOT / "tests" / top).rglob("test_*.py")
    }
    packages = [ROOT / folder.relative_to(ROOT / "tests") for folder in sorted(folders)]
    assert [str(each) for each in packages if not (each / "__init__.py").exists()] == []


def test_schemas_do_no_io_but_for_what_the_page_names() -> None:
    found = {
        path.parent.name if path.stem == "__init__" else path.stem
        for path in (ROOT / "schemas").rglob("*.py")
        if {name.partition(".")[0] for name in _imports(path)} & _IO
    }
    assert found == _WITH_FILES
    assert all(f"`{name}`" in _PAGE for name in _WITH_FILES)


def test_every_filter_and_score_has_its_test() -> None:
    plugins = {path.stem for path in (ROOT / "streams/placement/plugins").glob("[!_]*.py")}
    tested = {
        path.stem.removeprefix("test_")
        for path in (ROOT / "tests/streams/placement/plugins").glob("test_*.py")
    }
    assert plugins - tested == {"base"}


def test_only_the_modules_that_the_page_names_know_faust_and_asyncio() -> None:
    part = _PAGE.partition("the only modules that know Faust")[2].partition("connectors/")[0]
    allowed = set(re.findall(r"`(\w+)`", part))
    knowing = {
        path.relative_to(ROOT / "streams").parts[0].removesuffix(".py")
        for path in (ROOT / "streams").rglob("*.py")
        if {name.partition(".")[0] for name in _imports(path)}
        & {"faust", "aiokafka", "asyncio", "time"}
    }
    assert knowing <= allowed
    assert allowed - knowing <= {"app", "cli"}  # roots, which only put together
