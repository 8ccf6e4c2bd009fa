import gc
import weakref
from collections.abc import Iterator

import pytest

from streams.worker import garbage_collection


class Knot:
    """Something that refers to itself, as a connection may."""

    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.enable()


def test_what_lasts_is_not_looked_through() -> None:
    with garbage_collection.lasting():
        assert not gc.isenabled()
        knot = Knot()
    assert gc.isenabled()
    assert all(each is not knot for each in gc.get_objects())


def test_what_lasted_and_was_given_up_goes_the_next_time() -> None:
    with garbage_collection.lasting():
        knot = Knot()
    gone = weakref.ref(knot)
    del knot
    gc.collect()
    assert gone() is not None
    with garbage_collection.lasting():
        pass
    assert gone() is None


def test_an_error_while_state_is_put_together_leaves_the_collector_on() -> None:
    with pytest.raises(ValueError, match="damaged"), garbage_collection.lasting():
        raise ValueError("damaged")
    assert gc.isenabled()


def test_young_objects_are_looked_through_rarely_and_still() -> None:
    garbage_collection.look_rarely()
    assert gc.get_threshold()[0] > 700, "Python's own figure"
    assert gc.isenabled()
