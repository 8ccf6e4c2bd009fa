"""The installed package."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

from schemas.topics.catalog import TOPICS


@pytest.mark.slow
def test_no_other_package_provides_our_import_names() -> None:
    """The import names are common words, so another package could shadow them."""
    owners = packages_distributions()
    for name in ("schemas", "streams", "connectors", "simulation"):
        assert set(owners.get(name, ["loadstream"])) == {"loadstream"}


def test_the_wheel_has_examples_of_every_topic() -> None:
    builder = WheelBuilder(str(Path(__file__).parents[1]))
    included = {file.distribution_path for file in builder.recurse_included_files()}
    assert {f"schemas/examples/{topic.name}.json" for topic in TOPICS} <= included


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of the wheel, outside of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(Path(__file__).parents[1])).build(directory=str(folder))
    ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("demo", "--help"),
        ("kubernetes", "--help"),
        ("closed-loop", "--nodes", "4", "--hours", "0.1", "--set", "filling_hours=0.2", "--jobs", "1", "--contenders", "loadstream,least-allocated"),
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_commands_of_the_simulation_run_from_an_installed_wheel(
    arguments: Sequence[str], installed: Path, tmp_path: Path
) -> None:
    started = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, "-m", "loadstream", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (started.returncode, started.stderr if started.returncode else "") == (0, "")
    assert started.stdout
