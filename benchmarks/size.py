"""`python -m benchmarks.size [--check]`: prints the size of the project, one line per count.

Lines are those of Python files, including comments and blank lines. Words are those of Markdown files,
except generated pages of `benchmarks.reference` and `loadstream closed-loop`. `--check` exits with 1 if a
count exceeds its limit in `size_limits.json`. Limits are only lowered: a change that reduces a count also
lowers its limit.
"""

import importlib
import json
import pkgutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import typer
from pydantic import BaseModel
from pydantic_settings import BaseSettings

import connectors
import loadstream
import schemas.policy
import streams
from benchmarks.reference import GENERATED
from loadstream.commands import app
from schemas.storage.tables import TABLES
from schemas.topics.catalog import TOPICS

ROOT = Path(__file__).parents[1]
LIMITS = Path(__file__).with_name("size_limits.json")
PRODUCT = ("schemas", "streams", "connectors", "loadstream")
#: Folders of the simulation, which is counted separately from the product.
SIMULATION = ("simulation",)
#: Commands of the simulation.
SIMULATION_COMMANDS = ("loadstream/*demo.py", "loadstream/closed_loop.py", "loadstream/simulate.py")
#: Text in each report of the closed loop.
REPORT = "This command wrote the page:"


def main(arguments: list[str]) -> int:
    """Print the counts, and with `--check` compare them with their limits."""
    counts = measure()
    limits: dict[str, int] = json.loads(LIMITS.read_text())
    for name, count in counts.items():
        print(f"{name:32}{count:>8}   limit {limits[name]}")
    if arguments != ["--check"]:
        for folder, modules in _count_modules().most_common():
            print(f"{folder:40}{modules:>4} modules")
        return 0
    exceeded = [name for name, count in counts.items() if count > limits[name]]
    for name in exceeded:
        print(
            f"{name}: {counts[name]} exceeds the limit {limits[name]} in {LIMITS.name}: "
            "remove something else, or explain in the commit why the limit must rise",
            file=sys.stderr,
        )
    return 1 if exceeded else 0


def measure() -> dict[str, int]:
    modules = _count_modules()
    return {
        "lines of the product": _count_lines(PRODUCT) - _count_lines(SIMULATION_COMMANDS),
        "lines of the simulation": _count_lines((*SIMULATION, *SIMULATION_COMMANDS)),
        "lines of tests": _count_lines(("tests",)),
        "lines of benchmarks": _count_lines(("benchmarks",)),
        "words of documentation": _count_words(),
        "modules": sum(modules.values()),
        "modules in the largest folder": max(modules.values()),
        "topics": len(TOPICS),
        "tables": len(TABLES),
        "policy fields": sum(map(_count_own_fields, _find_models(schemas.policy, BaseModel))),
        "settings": sum(
            _count_own_fields(model)
            for package in (schemas, streams, connectors, loadstream)
            for model in _find_models(package, BaseSettings)
        ),
        "commands": _count_commands(typer.main.get_command(app)),
    }


def _list_files(pattern: str, *folders: str) -> list[Path]:
    """Return the files of the repository that git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    result = subprocess.run(  # noqa: S603 - our own arguments
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    paths = (ROOT / line for line in result.stdout.splitlines())
    return [path for path in paths if path.match(pattern) and path.is_file()]


def _count_lines(folders: Iterable[str]) -> int:
    return sum(len(path.read_text().splitlines()) for path in _list_files("*.py", *folders))


def _count_words() -> int:
    texts = (path.read_text() for path in _list_files("*.md"))
    written = (text for text in texts if not text.startswith(GENERATED) and REPORT not in text)
    return sum(len(text.split()) for text in written)


def _count_modules() -> Counter[str]:
    """Return the number of modules in each folder of the product, without `__init__.py`."""
    modules = (
        path for path in _list_files("*.py", *PRODUCT, *SIMULATION) if path.stem != "__init__"
    )
    return Counter(str(path.parent.relative_to(ROOT)) for path in modules)


def _find_models(package: ModuleType, base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            is_model = isinstance(value, type) and issubclass(value, base)
            if is_model and value.__module__ == module.__name__:
                yield value


def _count_own_fields(model: type[BaseModel]) -> int:
    return sum(int(name in model.model_fields) for name in vars(model).get("__annotations__", ()))


def _count_commands(command: object) -> int:
    subcommands = getattr(command, "commands", None)
    return 1 if subcommands is None else sum(map(_count_commands, subcommands.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
