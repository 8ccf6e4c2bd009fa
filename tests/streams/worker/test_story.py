"""What a worker tells of itself."""

import logging
from pathlib import Path

import pytest

from schemas.connection import KafkaSettings
from streams.stage.statistics import Counts
from streams.worker import story
from streams.worker.settings import WorkerSettings
from tests.streams.cluster.builders import policy_record, tick
from tests.streams.cluster.harness import Run


def test_a_worker_tells_its_version_stages_brokers_partitions_and_port(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    kafka = KafkaSettings.local("127.0.0.1:9092", partitions=8)
    story.began(WorkerSettings(metrics_port=9100, metrics_host="127.0.0.1"), kafka)
    (message,) = caplog.messages
    assert message.startswith("loadstream 0.")
    assert message.endswith(
        "begins: stages all, brokers 127.0.0.1:9092, 8 partitions a topic, metrics on 127.0.0.1:9100"
    )


def test_settings_that_are_set_and_change_nothing_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    settings = WorkerSettings(
        stages="cluster", collect_file=Path("policy.yaml"), clock="external", clock_hold_s=5
    )
    story.began(settings, KafkaSettings.local("127.0.0.1:9092"))
    assert caplog.messages[1:] == [
        "LOADSTREAM_WORKER_COLLECT_FILE has no effect: LOADSTREAM_WORKER_STAGES is cluster",
        "LOADSTREAM_WORKER_CLOCK_HOLD_S has no effect: LOADSTREAM_WORKER_CLOCK is external",
    ]


def test_partitions_are_told_when_they_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    story.recovered("cluster", {3, 1}, 7, 0.25)
    story.revoked("cluster", {3, 1})
    story.revoked("cluster", {})
    assert caplog.messages == [
        "stage cluster has the partitions 1, 3, recovered from 7 rows in 0.2 s",
        "stage cluster gives the partitions 1, 3 back for a rebalance",
    ]


def test_a_policy_that_is_applied_is_told_and_one_that_is_refused_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    run = Run()
    run.say(tick(0), policy_record("mode: enforce"), policy_record("mode: never"))
    counts = run.stage.take_counts()
    story.counted(counts)
    (message,) = caplog.messages
    assert message.endswith("(enforce)")
    story.counted(Counts())
    assert len(caplog.messages) == 1
