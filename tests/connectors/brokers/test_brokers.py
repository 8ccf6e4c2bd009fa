"""Brokers that are started by this project: their content and their cleanup."""

import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from connectors.brokers.distribution import KafkaUnavailable
from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import find_topics
from connectors.kafka.client import Connection, connect
from connectors.kafka.extents import read_extents
from connectors.kafka.topics import expected_names
from schemas.settings.connection import KafkaSettings
from tests.conftest import (
    RunningBroker,
    create_named,
    eventually,
    running,
)


def _write(settings: KafkaSettings, topic: str, partition: int, values: list[bytes]) -> None:
    producer = Producer({**settings.librdkafka_options(), "log_level": 0})
    errors: list[object] = []
    for value in values:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(60) == 0
    assert set(errors) == {None}


def _read(settings: KafkaSettings, topic: str, partition: int, count: int) -> list[bytes]:
    consumer = Consumer({**settings.librdkafka_options(), "group.id": "reader", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        values: list[bytes] = []
        while len(values) < count:
            messages = consumer.consume(count - len(values), timeout=60)
            assert messages, f"found {len(values)} of {count} records"
            values += [message.value() for message in messages]
        return values
    finally:
        consumer.close()


def test_a_broker_starts_with_all_topics_and_nothing_in_them(broker: RunningBroker) -> None:
    connection = connect(broker.settings)
    topics = find_topics(connection, expected_names())
    assert sorted(topics) == sorted(expected_names())
    assert {topic.partitions for topic in topics.values()} == {4}
    extents = read_extents(connection, {name: topic.partitions for name, topic in topics.items()})
    assert all(e.first_offset == e.next_offset == 0 for es in extents.values() for e in es)
    assert connection.embedded == (broker.kind == "embedded")


def _programs(directory: Path, *names: str) -> str:
    """Return a search path with only these programs, which are never run."""
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).write_text("#!/bin/sh\nexit 1\n")
        (directory / name).chmod(0o755)
    return str(directory)


@pytest.mark.parametrize(
    ("present", "program"), [(["java"], "`mvn` (Maven)"), (["mvn"], "`java` (a Java runtime")]
)
def test_an_error_names_a_missing_program(
    present: list[str], program: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", _programs(tmp_path / "bin", *present))
    with pytest.raises(KafkaUnavailable) as caught:
        KafkaServer(tmp_path / "kafka").start()
    assert program in str(caught.value)


def test_without_maven_a_real_kafka_is_skipped_or_fails_where_all_is_required(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", _programs(tmp_path / "bin"))
    monkeypatch.delenv("LOADSTREAM_REQUIRE_ALL", raising=False)
    with (
        pytest.raises(pytest.skip.Exception, match="Java runtime"),
        running(KafkaServer(tmp_path / "kafka")),
    ):
        pass
    monkeypatch.setenv("LOADSTREAM_REQUIRE_ALL", "1")
    with pytest.raises(KafkaUnavailable), running(KafkaServer(tmp_path / "kafka")):
        pass


def _setting(connection: Connection, name: str) -> str | None:
    """Return a setting of topic `journal`."""
    config = find_topics(connection, ["journal"])["journal"].config
    return None if config is None else config[name]


@pytest.mark.kafka
def test_a_killed_broker_of_three_is_unavailable_and_restarts_with_its_records(
    tmp_path: Path,
) -> None:
    with running(KafkaServer(tmp_path, brokers=3)) as server:
        settings = server.settings
        create_named(settings, "journal")
        connection = connect(settings)
        assert find_topics(connection, ["journal"])["journal"].replication == 3
        # Three copies are the brokers' default here, and not what was asked for. Any of the three is
        # asked, and each goes by the setting when it has heard of it.
        assert eventually(lambda: _setting(connection, "min.insync.replicas") == "2")
        server.members[1].kill()
        assert server.members[1].pid is None
        _write(settings, "journal", 0, [b"one", b"two"])
        server.start_broker(1)
        assert connect(server.settings).brokers == 3
        assert _read(settings, "journal", 0, 2) == [b"one", b"two"]


@pytest.mark.kafka
def test_records_survive_a_crash_and_a_restart_in_the_same_directory(
    tmp_path: Path,
) -> None:
    with running(KafkaServer(tmp_path), stopped=True) as server:
        create_named(server.settings, "journal")
        _write(server.settings, "journal", 1, [b"one"])
        server.members[0].kill()
        server.start_broker()
        _write(server.settings, "journal", 1, [b"two"])
    with running(KafkaServer(tmp_path)) as server:
        assert _read(server.settings, "journal", 1, 2) == [b"one", b"two"]


@pytest.mark.kafka
def test_a_broker_that_cannot_start_is_an_error_with_its_reason(tmp_path: Path) -> None:
    wrong = KafkaServer(tmp_path / "wrong", properties={"log.cleaner.threads": "many"})
    with pytest.raises(KafkaUnavailable, match=r"many.*log\.cleaner\.threads"), wrong:
        pass
    with socket.create_server(("127.0.0.1", 0)) as listener:
        twice = KafkaServer(tmp_path / "twice", port=listener.getsockname()[1])
        with pytest.raises(KafkaUnavailable, match="Address already in use"), twice:
            pass
