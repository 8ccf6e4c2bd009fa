"""The package as it is installed."""

from importlib.metadata import packages_distributions

import pytest


@pytest.mark.slow
def test_nobody_else_provides_our_import_names() -> None:
    """The import names are common words: a stranger's package of the same name would shadow ours."""
    owners = packages_distributions()
    for name in ("schemas", "streams", "connectors"):
        assert set(owners.get(name, ["loadstream"])) == {"loadstream"}
