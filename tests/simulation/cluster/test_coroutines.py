"""Asynchronous work that never waits runs without an event loop."""

import pytest

from simulation.cluster.coroutines import run_coroutine


async def _double(number: int) -> int:
    return 2 * number


def test_work_that_never_waits_has_its_result_at_once() -> None:
    assert run_coroutine(_double(3)) == 6


def test_errors_of_the_work_are_raised() -> None:
    async def fails() -> None:
        raise OSError("out of reach")

    with pytest.raises(OSError, match="out of reach"):
        run_coroutine(fails())
