"""`loadstream policy init` on an embedded broker that holds the records of a simulated cluster."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from connectors.process import wall_clock
from loadstream.policy.commands import app
from schemas.messages.clock import ClockTick
from schemas.messages.metrics import NodeMetric
from schemas.policy import read_policy
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from simulation.closed_loop.scenario import BEGIN_MS, CLUSTER
from simulation.closed_loop.stage_contender import StageContender
from simulation.closed_loop.world import run as run_world
from streams.in_process.pipeline import LocalPipeline, ProducedRecord
from tests.conftest import RunningBroker
from tests.simulation.closed_loop.days import EAGER, quiet, scenario

_NODES = 8
#: Outputs that a history is read from.
_READ = ("status",)

Records = list[tuple[str, bytes, bytes]]
"""Topic, key and value."""


class Recording(LocalPipeline):
    """Both stages, and every record that went through them."""

    def __init__(self) -> None:
        super().__init__()
        self.records: Records = []
        apply = self.cluster.apply

        def recorded(batch):  # type: ignore[no-untyped-def]  # as the stage's own
            self.records += [(each.topic, each.key, each.value) for each in batch]
            return apply(batch)

        self.cluster.apply = recorded  # type: ignore[method-assign]

    def apply(self, records: Sequence[ProducedRecord]) -> list[tuple[str, bytes]]:
        self.records += [
            (each.topic, each.key.encode(), each.value)
            for each in records
            if each.topic == "node-usage"
        ]
        outputs = super().apply(records)
        self.records += [
            (topic, CLUSTER.encode(), value) for topic, value in outputs if topic in _READ
        ]
        return outputs


@pytest.fixture(scope="module")
def history() -> Records:
    """What a cluster and its worker wrote in an hour and a half."""
    drawn = scenario(1, nodes=_NODES, hours=1.0, filling_hours=0.5, load=0.6)
    stages = Recording()
    run_world(drawn, StageContender("ours", EAGER, lambda: stages), quiet)
    return stages.records


@pytest.fixture
def broker(embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> RunningBroker:
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", embedded.bootstrap_servers)
    monkeypatch.setenv("LOADSTREAM_KAFKA_PARTITIONS", str(embedded.settings.partitions))
    monkeypatch.setattr(wall_clock, "now_ms", lambda: BEGIN_MS + 5_400_000)
    return embedded


def write(broker: RunningBroker, records: Records) -> None:
    partitions = broker.settings.partitions
    producer = Producer({**broker.settings.librdkafka_options(), "log_level": 0})
    for topic, key, value in records:
        # The clock is of a partition, and there was only one.
        home = partition_for(CLUSTER.encode() if topic == "clock" else key, partitions)
        producer.produce(topic, value, key=key, partition=home)
        producer.poll(0)
    assert producer.flush(60) == 0


def init(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["init", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_policy_comes_from_what_the_cluster_did_and_is_one_that_can_be_applied(
    broker: RunningBroker, history: Records, tmp_path: Path
) -> None:
    write(broker, history)
    result = init(CLUSTER)
    assert result.exit_code == 0, result.stderr
    policy = read_policy(result.stdout)
    assert policy.mode == "observe"
    assert policy.warnings == ()
    assert f"{_NODES} nodes" in result.stdout
    # Each value has its reason right above it.
    lines = result.stdout.splitlines()
    for number, line in enumerate(lines):
        if line and not line.lstrip().startswith("#") and not line.endswith(":"):
            assert lines[number - 1].lstrip().startswith("# "), line

    document = json.loads(init(CLUSTER, "--json").stdout)
    assert document["policy"] == result.stdout
    found = document["history"]
    assert (found["nodes"], found["silent_nodes"], found["report_ms"]) == (_NODES, 0, 60_000)
    assert 0.45 < found["loads"]["cpu"]["p75"] < 1
    assert found["schedulers"] == [["loadstream", found["pods"]]]
    assert found["budgets"] > 0

    file = tmp_path / "first.yaml"
    assert init(CLUSTER, "--output", str(file)).exit_code == 0
    assert file.read_text(encoding="utf-8") == result.stdout
    again = init(CLUSTER, "--output", str(file))
    assert again.exit_code == 1
    assert "File exists" in again.stderr


def test_a_look_back_that_finds_too_little_in_any_case_is_refused(broker: RunningBroker) -> None:
    result = init(CLUSTER, "--back", "1h")
    assert result.exit_code == 2
    assert "found 1h; expected more than 1h, such as 2h" in result.stderr


def test_too_little_history_is_said_and_what_to_do(broker: RunningBroker) -> None:
    metric = NodeMetric(cluster=CLUSTER, node="n1", updated_at_ms=BEGIN_MS, usage={"cpu": 100})
    later = metric.model_copy(update={"updated_at_ms": BEGIN_MS + 600_000})
    tick = ClockTick(partition=0, now_ms=BEGIN_MS)
    key = CLUSTER.encode()
    write(
        broker,
        [("node-metrics", key, encode(each)) for each in (metric, later)]
        + [("clock", b"0", encode(tick))],
    )
    result = init(CLUSTER)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "its metrics span 10 min; expected at least 60 min" in result.stderr
    assert "deploy/policies/observe.yaml" in result.stderr
