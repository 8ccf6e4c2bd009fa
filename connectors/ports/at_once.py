"""Runs asynchronous work that never waits, from code that has no event loop.

The ports are asynchronous for the sake of API servers. What is simulated answers at once, and a
simulation that moves in steps is easier to follow without a loop.
"""

from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of work that never waits; raises RuntimeError if it does."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("the work waits for something; it needs an event loop")


def all_at_once(items: AsyncIterator[T]) -> list[T]:
    """All items of an iterator that never waits; raises RuntimeError if it does."""

    async def collected() -> list[T]:
        return [item async for item in items]

    return at_once(collected())
