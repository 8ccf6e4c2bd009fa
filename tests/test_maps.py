"""The maps of the code: a package's docstring names every module that is in it, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_PACKAGES = sorted(
    path.parent
    for top in ("benchmarks", "connectors", "schemas", "simulation", "streams")
    for path in (_ROOT / top).rglob("__init__.py")
)


def _map(package: Path) -> str:
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    return ast.get_docstring(tree) or ""


def _modules(package: Path) -> Iterator[str]:
    """Modules and packages in a package, but for those of Python itself."""
    for path in sorted(package.iterdir()):
        if path.suffix == ".py" and not path.stem.startswith("__"):
            yield path.stem
        elif (path / "__init__.py").exists():
            yield path.name


@pytest.mark.parametrize("package", _PACKAGES, ids=lambda path: str(path.relative_to(_ROOT)))
def test_the_docstring_of_a_package_names_every_module_in_it(package: Path) -> None:
    named = set(re.findall(r"\w+", _map(package)))
    assert [module for module in _modules(package) if module not in named] == []


@pytest.mark.parametrize("package", _PACKAGES, ids=lambda path: str(path.relative_to(_ROOT)))
def test_a_line_of_a_map_is_about_a_module_that_is_there(package: Path) -> None:
    lines = re.findall(r"^(?: {4})?(\w+)  +\S", _map(package), re.MULTILINE)
    assert [line for line in lines if line not in set(_modules(package))] == []
