"""The docstring of a package names exactly the modules of the package."""

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
    """Yield the modules and packages in a package, except for dunder modules."""
    for path in sorted(package.iterdir()):
        if path.suffix == ".py" and not path.stem.startswith("__"):
            yield path.stem
        elif (path / "__init__.py").exists():
            yield path.name


@pytest.mark.parametrize("package", _PACKAGES, ids=lambda path: str(path.relative_to(_ROOT)))
def test_the_docstring_of_a_package_names_every_module_in_it(package: Path) -> None:
    words = set(re.findall(r"\w+", _map(package)))
    assert [module for module in _modules(package) if module not in words] == []


@pytest.mark.parametrize("package", _PACKAGES, ids=lambda path: str(path.relative_to(_ROOT)))
def test_a_line_of_a_map_is_about_an_existing_module(package: Path) -> None:
    lines = re.findall(r"^(?: {4})?(\w+)  +\S", _map(package), re.MULTILINE)
    assert [line for line in lines if line not in set(_modules(package))] == []
