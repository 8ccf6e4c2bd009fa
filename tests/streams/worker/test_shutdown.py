"""A worker that is asked to stop ends, whatever has become of its brokers."""

import subprocess
from pathlib import Path

import pytest

from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.topics import expected_topics
from schemas.nodes import NodeState
from tests.conftest import running
from tests.streams.worker_process import Worker, client

#: Settings say how long the end may take; a machine under load gets this many times as long.
_PATIENCE = 4
_STOP_S = 5


@pytest.mark.kafka
@pytest.mark.timeout(400)
@pytest.mark.parametrize("under_load", [False, True])
async def test_a_worker_whose_broker_is_gone_ends_when_it_is_asked_to(
    tmp_path: Path, *, under_load: bool
) -> None:
    with running(KafkaServer(tmp_path / "kafka")) as server:
        # All that is sent is in one partition, and those of 45 topics cost broker and worker seconds.
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
            server.kill_broker()
            worker.ask_to_stop()
            try:
                worker.wait(_STOP_S * _PATIENCE)
            except subprocess.TimeoutExpired:
                pytest.fail(f"the worker still runs:\n{worker.log()}")
