"""The maps of the code: a package's docstring names every module that is in it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("benchmarks", "connectors", "schemas", "streams")


def _packages() -> Iterator[Path]:
    for name in _PACKAGES:
        yield from sorted(path.parent for path in (_ROOT / name).rglob("__init__.py"))


def _rooms(package: Path) -> Iterator[str]:
    """Modules and packages in a package, but for those of Python itself."""
    for path in sorted(package.iterdir()):
        if path.suffix == ".py" and not path.stem.startswith("__"):
            yield path.stem
        elif (path / "__init__.py").exists():
            yield path.name


@pytest.mark.parametrize("package", _packages(), ids=lambda path: str(path.relative_to(_ROOT)))
def test_the_docstring_of_a_package_names_every_module_in_it(package: Path) -> None:
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    named = set(re.findall(r"\w+", ast.get_docstring(tree) or ""))
    assert [room for room in _rooms(package) if room not in named] == []
