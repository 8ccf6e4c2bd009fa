"""The modules and packages on the pages about architecture and words exist."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, spans
from tests.walk import WALKS

_ARCHITECTURE = ROOT / "docs" / "contributing" / "architecture.md"
_GLOSSARY = ROOT / "docs" / "contributing" / "glossary.md"
_TOP = (
    "schemas",
    "streams",
    "connectors",
    "simulation",
    "loadstream",
    "benchmarks",
    "tests",
    "docs",
    "deploy",
    "examples",
)
#: Example files that a reader would create.
_NEW = "gpu_count"


def _exists(path: str) -> bool:
    """Whether a module, package or file exists below the root or below `streams`."""
    bases = [ROOT] if path.split("/")[0] in _TOP else [ROOT / "streams"]
    return any(
        (base / path).exists() or (base / f"{path}.py").exists() or any(base.glob(path))
        for base in bases
    )


@pytest.mark.parametrize("page", [_ARCHITECTURE, _GLOSSARY], ids=lambda page: page.name)
def test_the_modules_on_the_page_exist(page: Path) -> None:
    whole, _, _ = page.read_text(encoding="utf-8").partition("## Which files to open")
    modules = [
        (line, span)
        for line, span in spans(page)
        if line <= whole.count("\n")
        and re.fullmatch(r"[a-z_]+(/[a-z_*.]+)+/?", span)
        and span != "partition/cluster/kind/name"
    ]
    assert len(modules) > 25
    assert [f"{line}: {span}" for line, span in modules if not _exists(span)] == []


def test_the_files_that_a_task_opens_exist() -> None:
    """A file without a folder is in a folder of the same task or in a package next to these."""
    _, _, tasks = _ARCHITECTURE.read_text(encoding="utf-8").partition("## Which files to open")
    rows = [line for line in tasks.split("\n") if line.startswith("| ")][1:]
    assert len(rows) >= 5
    missing = []
    for row in rows:
        paths = re.findall(r"`([\w/.]+\.py)`", row)
        folders = {(ROOT / path).parent for path in paths if path.split("/")[0] in _TOP}
        files = [path for path in paths if _NEW not in path]
        for file in files:
            bases = {base for folder in folders for base in (folder, *folder.parents)}
            if not _exists(file) and not any((base / file).exists() for base in bases):
                missing.append(f"{row[:40]}: {file}")
    assert missing == []


def test_the_layers_of_the_page_are_the_checked_layers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (
        contract["layers"]
        for contract in project["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers" and contract.get("containers") == ["streams"]
    )
    checked = [set(re.findall(r"\w+", layer)) for layer in layers]
    text = _ARCHITECTURE.read_text(encoding="utf-8")
    table = text.partition("| line of `streams` |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.split("\n") if line.startswith("| `")]
    assert [set(re.findall(r"\w+", row)) for row in rows] == checked


@pytest.mark.parametrize("name", WALKS)
def test_the_page_shows_the_current_walk(name: str) -> None:
    assert f"```\n{WALKS[name]().describe()}\n```" in _ARCHITECTURE.read_text(encoding="utf-8")


def test_every_package_is_on_the_page() -> None:
    text = _ARCHITECTURE.read_text(encoding="utf-8")
    packages = [
        path.parent.relative_to(ROOT)
        for top in ("schemas", "streams", "connectors", "benchmarks")
        for path in ROOT.glob(f"{top}/**/__init__.py")
    ]
    inner = [
        package for package in packages
        if f"`{package}" not in text and f"`{package.name}" not in text and f"/{package.name}" not in text
    ]  # fmt: skip
    assert [str(package) for package in inner] == []
