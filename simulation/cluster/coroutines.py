"""Runs a coroutine that never waits, without an event loop.

Sinks are asynchronous because API servers answer late. Simulated clusters answer immediately, and a
simulation that advances in steps is simpler without an event loop.
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits; raises RuntimeError if it waits."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("the coroutine waits, so it needs an event loop")
