"""A worker stops on request, with and without brokers."""

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import pytest
from faust.tables.recovery import ServiceStopped

from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.topics import expected_topics
from schemas.messages.nodes import NodeState
from streams.worker.shutdown import handle_loop_exception
from tests.conftest import RunningBroker, running
from tests.streams.worker_process import Worker, client

#: Settings say how long the end may take; a machine under load gets this many times as long.
_PATIENCE = 4
_STOP_S = 5
#: A failed worker whose shutdown hangs; its argument is the address of a broker.
_STUCK = """
import asyncio, sys
from streams.worker import shutdown
from streams.worker.store.fence import LostOwnership
from streams.worker.consume.transport import WorkerApp

shutdown.FAILED_STOP_S = 1.0
app = WorkerApp("stuck", broker=f"kafka://{sys.argv[1]}", store="memory://", web_enabled=False)

async def fail():
    await app.crash(LostOwnership("another worker has it"))

async def wait(*_, **__):
    await asyncio.Event().wait()

app.companions = (fail,)
app.on_before_shutdown.connect(wait)
shutdown.DeadlineWorker(app, 3_600.0).execute_from_commandline()
"""


def test_a_stop_during_recovery_logs_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def leave_failed_task(error: Exception) -> None:
        async def fail() -> None:
            raise error

        asyncio.get_running_loop().set_exception_handler(handle_loop_exception)
        task = asyncio.create_task(fail())
        await asyncio.wait([task])

    asyncio.run(leave_failed_task(ServiceStopped()))
    gc.collect()
    assert not caplog.records
    asyncio.run(leave_failed_task(ValueError("of another kind")))
    gc.collect()
    assert "of another kind" in caplog.text


@pytest.mark.kafka
@pytest.mark.timeout(400)
@pytest.mark.parametrize("under_load", [False, True])
async def test_a_worker_without_a_broker_stops_on_request(
    tmp_path: Path, *, under_load: bool
) -> None:
    with running(KafkaServer(tmp_path / "kafka")) as server:
        # All records are in one partition; more partitions of 45 topics would cost seconds.
        settings = server.settings.model_copy(update={"partitions": 1})
        create_topics(connect(settings), expected_topics(settings))
        with Worker(settings, tmp_path, stop_timeout_s=str(_STOP_S)) as worker:
            async with client(settings, worker, "dead-letters") as kafka:
                allocatable = {"cpu": "16", "memory": "64Gi", "pods": "110"}
                nodes = [
                    NodeState(
                        cluster="c", node=f"n{number}", event="added", allocatable=allocatable
                    )
                    for number in range(2_000 if under_load else 1)
                ]
                await kafka.send_raw("node-state", b"not json")
                await kafka.until(lambda: len(kafka.of("dead-letters")) == 1)
                await kafka.send("node-state", nodes)
            server.members[0].kill()
            worker.ask_to_stop()
            try:
                worker.wait(_STOP_S * _PATIENCE)
            except subprocess.TimeoutExpired:
                pytest.fail(f"the worker still runs:\n{worker.log()}")


@pytest.mark.broker
def test_a_failed_worker_ends_soon_and_logs_the_reason_last(
    embedded: RunningBroker, tmp_path: Path
) -> None:
    servers = embedded.settings.bootstrap_servers
    ended = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", _STUCK, str(servers)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1
    *_, first_line, why = ended.stderr.splitlines()
    assert "has not stopped within 1 s after its failure" in first_line
    assert why == "the worker was stopped by LostOwnership: another worker has it"
