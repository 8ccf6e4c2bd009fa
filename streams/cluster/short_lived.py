"""Objects that are as a rule let go of in the moment in which they are made.

A state of a cluster has cycles, so that Python has to find it once nobody needs it. It looks at
what is young often and at what is old hardly ever (`streams.worker.garbage_collection`), and what
it comes upon half made is old from then on: some of the states that are made for one refused record
would stay for the life of the process.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def short_lived() -> Iterator[None]:
    """What is made and let go of meanwhile is found the next time that Python looks."""
    looks = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looks:
            gc.enable()
