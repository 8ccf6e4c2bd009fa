import gc
from collections.abc import Callable, Iterator

import pytest

from streams.inventory.inventory import Inventory


@pytest.fixture
def inventories() -> Iterator[Callable[[], int]]:
    """Counts the inventories in memory; Python does not look for cycles of objects meanwhile, so that
    what is held by them stays."""
    gc.collect()
    gc.disable()
    try:
        yield lambda: sum(isinstance(each, Inventory) for each in gc.get_objects())
    finally:
        gc.enable()
