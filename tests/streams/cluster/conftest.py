import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def looks_rarely() -> Iterator[None]:
    """Python looks for cycles among young objects often and among old ones never, as in a worker.

    What a test freezes is let go at its end.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(100, 1, 1_000_000)
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
