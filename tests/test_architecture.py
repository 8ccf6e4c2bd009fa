"""The borders of the code: `lint-imports`, as `make check` runs it, refuses what they forbid."""

import re
import shutil
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("benchmarks", "connectors", "loadstream", "schemas", "streams")

#: A module, and an import in it that a contract forbids.
_FORBIDDEN = {
    "streams.aggregate.window": "time",
    "streams.cluster.rounds": "random",
    "streams.inventory.node": "streams.worker.settings",
    "streams.pods.kind": "streams.usage.estimate",
    "streams.usage.metric": "streams.risk.lifetimes",
    "streams.migration.gates.budgets": "faust",
    "streams.moves.loops": "streams.worker.consume.ticker",
    "streams.placement.placer": "aiokafka",
    "streams.placement.filters.fit": "faust",
    "streams.rebalance.thresholds.rounds": "streams.worker.runner",
    "streams.replay.diff": "asyncio",
    "streams.stage.packing": "confluent_kafka",
    "streams.worker.store.pipeline": "streams.cluster.stage",
    "schemas.base.message": "asyncio",
    "connectors.units": "benchmarks.figures",
    "connectors.process.wall_clock": "streams.stage.records",
    "streams.replay.start": "connectors.units",
}
#: The module may import it, and the decision core, which imports the module, may not.
_INDIRECT = ("schemas.storage.rows", "random")
#: With it two packages import each other.
_CIRCLE = ("connectors.policies.entries", "connectors.queries.presence")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What `lint-imports` says of a copy of the sources with all forbidden imports at once."""
    copy = tmp_path_factory.mktemp("sources")
    for name in _PACKAGES:
        shutil.copytree(_ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(_ROOT / "pyproject.toml", copy)
    for module, imported in [*_FORBIDDEN.items(), _INDIRECT, _CIRCLE]:
        path = copy.joinpath(*module.split(".")).with_suffix(".py")
        path.write_text(
            f"{path.read_text(encoding='utf-8')}\nimport {imported}\n", encoding="utf-8"
        )
    return _lint(copy, expected=1)


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


@pytest.mark.parametrize(("module", "imported"), _FORBIDDEN.items())
def test_a_forbidden_import_fails_the_check(report: str, module: str, imported: str) -> None:
    assert re.search(rf"- +{re.escape(module)} -> {re.escape(imported)} \(l\.", report)


def test_a_forbidden_import_through_another_module_fails_the_check(report: str) -> None:
    module, imported = map(re.escape, _INDIRECT)
    chain = rf"- +streams\.\S+ -> {module} \(l\.[0-9, l.]+\)\n +{module} -> {imported} \(l\."
    assert re.search(chain, report)


def test_packages_that_import_each_other_fail_the_check(report: str) -> None:
    assert "No cycles are allowed in connectors." in report


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph(*_PACKAGES, cache_dir=None)
    imports = {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_code_waits_with_what_loses_a_cancellation() -> None:
    """`asyncio.wait_for` of Python 3.11 does, where the answer is there already; `timeout` does not."""
    found = [
        str(path.relative_to(_ROOT))
        for name in _PACKAGES
        for path in sorted((_ROOT / name).rglob("*.py"))
        if "asyncio.wait_for" in path.read_text(encoding="utf-8")
    ]
    assert found == []
