"""When Python looks for cycles of objects that are not needed any more.

Messages and state are trees, for which counting references is enough. Looking through the million
objects of a large cluster for cycles takes a second in which nothing is decided. While a cluster is
put together from its rows this happens again and again: it takes half of the time of a recovery.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: Objects that are made before the youngest are looked through; Python's own figure is 700. A batch
#: makes some thousands that it drops again, which are not looked at below this figure: at 1,000
#: looking takes 14 µs of a decision's CPU time, at 20,000 5 µs. A look at this many takes 15 ms, and
#: one at the middle ones below 0.1 s.
_YOUNGEST = 20_000
_YOUNGEST_PER_MIDDLE = 5
#: Looks at the middle ones before a look at everything, which takes a second in a large cluster.
_MIDDLE_PER_ALL = 20_000


def look_rarely() -> None:
    """Look through young objects only once there are many; for the start of a worker."""
    gc.set_threshold(_YOUNGEST, _YOUNGEST_PER_MIDDLE, _MIDDLE_PER_ALL)


@contextmanager
def lasting() -> Iterator[None]:
    """What is there at the end lasts: do not look through it now nor later, until the next such
    time.

    What has lasted since the last time and is needed no more, such as connections, is let go of
    first: it may have cycles, which the state of partitions has not.
    """
    gc.unfreeze()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
