"""The event loop of a process closes cleanly."""

import asyncio

import uvloop

from connectors.process import event_loop


def test_work_runs_in_uvloop_and_its_result_is_returned() -> None:
    async def work() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert event_loop.run(work()) == uvloop.Loop.__module__
