"""The package as it is installed."""

from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from schemas.topics import TOPICS


@pytest.mark.slow
def test_nobody_else_provides_our_import_names() -> None:
    """The import names are common words: a stranger's package of the same name would shadow ours."""
    owners = packages_distributions()
    for name in ("schemas", "streams", "connectors"):
        assert set(owners.get(name, ["loadstream"])) == {"loadstream"}


def test_the_wheel_has_examples_of_every_topic() -> None:
    builder = WheelBuilder(str(Path(__file__).parents[1]))
    included = {file.distribution_path for file in builder.recurse_included_files()}
    assert {f"schemas/examples/{topic.name}.json" for topic in TOPICS} <= included
