"""`loadstream simulate` with a real worker."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from connectors.kafka.client import connect
from connectors.kafka.cluster_records import PastMessages
from loadstream.commands import app
from schemas.messages.policies import PolicyRecord
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker, eventually
from tests.streams.worker_process import Worker, client

_COMMAND = [sys.executable, "-m", "loadstream", "simulate"]


async def test_pods_of_the_simulated_cluster_are_placed_and_bound_until_it_is_ended(
    embedded: RunningBroker, tmp_path: Path
) -> None:
    environment = {**os.environ, "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": embedded.bootstrap_servers}
    options = ["--nodes", "20", "--churn", "100", "--period", "2", "--cluster", "c"]
    topics = ("placement-decisions", "command-outcomes", "dead-letters")
    with Worker(embedded.settings, tmp_path) as worker:
        async with client(embedded.settings, worker, *topics) as kafka:
            simulated = subprocess.Popen(  # noqa: S603 - our own command
                [*_COMMAND, *options], env=environment, stderr=subprocess.PIPE, text=True
            )
            try:
                await kafka.until(lambda: len(kafka.of("command-outcomes")) >= 3)
                simulated.send_signal(signal.SIGTERM)
                _, output = simulated.communicate(timeout=60)
            finally:
                simulated.kill()
            # The simulation reports once a minute, and the worker may take longer.
            others = [line for line in output.splitlines() if not line.startswith("c: ")]
            assert (simulated.returncode, others) == (0, ["stopped by SIGTERM"])
            assert {outcome.result for outcome in kafka.of("command-outcomes")} == {"done"}
            (policy,) = PastMessages(connect(embedded.settings), "policies", "c", 10).newest()
            assert policy.reason == "policy of loadstream simulate"
            assert kafka.of("dead-letters") == []


def test_an_applied_policy_survives_a_restart_of_the_simulation(
    embedded: RunningBroker,
) -> None:
    applied = PolicyRecord(cluster="c", document="mode: enforce", applied_at_ms=1_795_000_000_000)
    home = partition_for(b"c", embedded.settings.partitions)
    producer = Producer({**embedded.settings.librdkafka_options(), "log_level": 0})
    producer.produce("policies", encode(applied), key=b"c", partition=home)
    assert producer.flush(60) == 0
    environment = {**os.environ, "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": embedded.bootstrap_servers}
    connection = connect(embedded.settings)
    simulated = subprocess.Popen(  # noqa: S603 - our own command
        [*_COMMAND, "--nodes", "3", "--cluster", "c", "--period", "1"], env=environment,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        samples = PastMessages(connection, "node-usage", None, 10)
        assert eventually(lambda: any(samples.newest()))
    finally:
        simulated.kill()
        simulated.communicate()
    assert list(PastMessages(connection, "policies", "c", 10).newest()) == [applied]


@pytest.mark.parametrize("cluster", ["", "a/b", "a" * 254])
def test_an_invalid_cluster_name_is_an_error_of_the_command_line(
    cluster: str,
) -> None:
    nowhere = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    answer = CliRunner().invoke(app, ["simulate", "--cluster", cluster], env=nowhere)
    assert answer.exit_code == 2, answer.exception
    assert "253" in answer.output
