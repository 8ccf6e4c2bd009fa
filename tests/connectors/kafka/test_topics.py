"""Expected topics, and how differences are reported and fixed."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.admin import TopicsRefused, create_topics, find_topics
from connectors.kafka.client import Connection, connect
from connectors.kafka.topics import (
    ExpectedTopic,
    FoundTopic,
    compare,
    expected_names,
    expected_topics,
    find_worst_grade,
)
from schemas.settings.connection import KafkaSettings
from schemas.storage.tables import TABLES
from schemas.topics.catalog import TOPICS
from tests.conftest import RunningBroker, clear, eventually, patient

SETTINGS = KafkaSettings.local("a:1")
EXPECTED = {topic.name: topic for topic in expected_topics(SETTINGS)}


def _actual(expected: ExpectedTopic, **changes: Any) -> FoundTopic:
    """Return the expected topic with changes."""
    values: dict[str, Any] = {
        "name": expected.name, "partitions": expected.partitions, "replication": 1,
        "config": dict(expected.config),
    }  # fmt: skip
    return FoundTopic(**(values | changes))


def test_every_topic_and_the_changelog_of_every_table_is_expected() -> None:
    names = {topic.name for topic in TOPICS}
    changelogs = {f"loadstream-{table.name}-changelog" for table in TABLES}
    assert set(expected_names()) == set(EXPECTED) == names | changelogs


def test_all_topics_have_the_same_number_of_partitions() -> None:
    topics = expected_topics(SETTINGS.model_copy(update={"partitions": 12}))
    assert {topic.partitions for topic in topics} == {12}


def test_topics_are_kept_or_compacted_as_documented() -> None:
    assert EXPECTED["node-usage"].config["retention.ms"] == "604800000"
    assert EXPECTED["policies"].config["cleanup.policy"] == "compact"
    assert EXPECTED["policies"].config["min.compaction.lag.ms"] == "2592000000"
    assert EXPECTED["loadstream-nodes-changelog"].config["cleanup.policy"] == "compact"


@pytest.mark.parametrize(("copies", "in_sync"), [(None, None), (1, None), (2, None), (3, "2")])
def test_an_acknowledged_record_with_three_copies_survives_one_broker(
    copies: int | None, in_sync: str | None
) -> None:
    topics = expected_topics(SETTINGS.model_copy(update={"replication_factor": copies}))
    assert {topic.config.get("min.insync.replicas") for topic in topics} == {in_sync}


def test_three_copies_by_broker_default_need_two_acknowledgements() -> None:
    clock = EXPECTED["clock"]
    config = {**clock.config, "min.insync.replicas": "1"}
    assert compare(clock, _actual(clock, replication=2, config=config)) == []
    [finding] = compare(clock, _actual(clock, replication=3, config=config))
    assert (finding.setting, finding.expected, finding.found) == ("min.insync.replicas", "2", "1")
    assert finding.remedy == "Set it with `loadstream topic create --mend`."


def test_a_wrong_partition_count_is_reported_with_both_numbers_and_the_risk() -> None:
    [finding] = compare(EXPECTED["clock"], _actual(EXPECTED["clock"], partitions=6))
    assert "clock: partitions: expected 4, found 6. loadstream refuses this" in str(finding)
    assert "LOADSTREAM_KAFKA_PARTITIONS=6" in str(finding)


def test_copies_are_only_compared_if_a_number_is_configured() -> None:
    expected = expected_topics(SETTINGS.model_copy(update={"replication_factor": 3}))[0]
    [finding] = compare(expected, _actual(expected, replication=2))
    assert (finding.setting, finding.expected, finding.found) == ("replication", "3", "2")
    clock = EXPECTED["clock"]
    config = {**clock.config, "min.insync.replicas": "2"}
    assert compare(clock, _actual(clock, replication=7, config=config)) == []


def test_unknown_settings_are_not_reported_as_correct() -> None:
    actual = _actual(EXPECTED["clock"], config=None, reason="the broker does not say")
    findings = compare(EXPECTED["clock"], actual)
    assert find_worst_grade(findings) == "unknown"
    assert "the broker does not say" in str(findings[0])
    partly = dict(EXPECTED["clock"].config)
    del partly["message.timestamp.after.max.ms"]
    [finding] = compare(EXPECTED["clock"], _actual(EXPECTED["clock"], config=partly))
    assert (finding.verdict, finding.setting) == ("unknown", "message.timestamp.after.max.ms")


@given(name=st.sampled_from(sorted(EXPECTED)), data=st.data())
def test_exactly_the_different_settings_are_reported(name: str, data: st.DataObject) -> None:
    expected = EXPECTED[name]
    wrong = data.draw(st.sets(st.sampled_from(sorted(expected.config))))
    config: Mapping[str, str] = {
        setting: f"{value}0" if setting in wrong else value
        for setting, value in expected.config.items()
    }
    findings = compare(expected, _actual(expected, config=config))
    assert {finding.setting for finding in findings} == wrong
    assert all(finding.expected == expected.config[finding.setting] for finding in findings)
    assert find_worst_grade(findings) == ("differs" if wrong else "ok")


def test_the_embedded_broker_refuses_an_unsupported_partition_count(
    embedded: RunningBroker,
) -> None:
    connection = connect(embedded.settings)
    resized = expected_topics(embedded.settings.model_copy(update={"partitions": 8}))
    with pytest.raises(TopicsRefused, match="expected 8, found 4"):
        create_topics(connection, resized)
    new = ExpectedTopic("brand-new", 8, None, {})
    with pytest.raises(TopicsRefused, match="Topics of the embedded broker have 4 partitions"):
        create_topics(connection, (new,))
    assert find_topics(connection, ["brand-new"]) == {}


@pytest.fixture
def empty_kafka(clean_kafka: RunningBroker) -> Connection:
    """A connection to the real Kafka without any topics."""
    connection = connect(patient(clean_kafka.settings))
    clear(connection)
    return connection


def _alter(connection: Connection, topic: str, setting: str, value: str) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    for answer in connection.admin.incremental_alter_configs([resource]).values():
        answer.result()
    # The broker has stored the setting and applies it a moment later.
    assert eventually(lambda: _setting(connection, topic, setting) == value)


def _setting(connection: Connection, topic: str, setting: str) -> str | None:
    config = find_topics(connection, [topic])[topic].config
    return None if config is None else config[setting]


@pytest.mark.kafka
def test_only_missing_topics_are_created(empty_kafka: Connection) -> None:
    expected = expected_topics(empty_kafka.settings)
    created, report = create_topics(empty_kafka, expected[:5])
    assert created == [topic.name for topic in expected[:5]]
    assert {find_worst_grade(findings) for findings in report.values()} == {"ok"}
    created, report = create_topics(empty_kafka, expected)
    assert created == [topic.name for topic in expected[5:]]
    assert {find_worst_grade(findings) for findings in report.values()} == {"ok"}


@pytest.mark.kafka
def test_different_settings_are_reported_and_only_fixed_on_request(empty_kafka: Connection) -> None:
    expected = expected_topics(empty_kafka.settings)
    create_topics(empty_kafka, expected)
    _alter(empty_kafka, "journal", "retention.ms", "1000")
    _alter(empty_kafka, "policies", "cleanup.policy", "delete")
    _, report = create_topics(empty_kafka, expected)
    differing = {str(finding) for findings in report.values() for finding in findings}
    assert differing == {
        "journal: retention.ms: expected 604800000, found 1000. "
        "Set it with `loadstream topic create --mend`.",
        "policies: cleanup.policy: expected compact, found delete. "
        "Set it with `loadstream topic create --mend`.",
    }
    _, report = create_topics(empty_kafka, expected, mend=True)
    assert {find_worst_grade(findings) for findings in report.values()} == {"ok"}


@pytest.mark.kafka
def test_a_setting_that_takes_effect_later_is_awaited(
    empty_kafka: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = EXPECTED["clock"]
    create_topics(empty_kafka, (clock,))
    _alter(empty_kafka, "clock", "retention.ms", "1000")
    as_it_was = find_topics(empty_kafka, ["clock"])
    looks: list[object] = []

    def find_late(connection: Connection, names: Iterable[str]) -> dict[str, FoundTopic]:
        looks.append(names)
        return as_it_was if len(looks) < 5 else find_topics(connection, names)

    monkeypatch.setattr("connectors.kafka.admin.find_topics", find_late)
    _, report = create_topics(empty_kafka, (clock,), mend=True)
    assert find_worst_grade(report["clock"]) == "ok"


@pytest.mark.kafka
def test_a_changed_partition_count_is_refused_and_nothing_is_created(
    empty_kafka: Connection,
) -> None:
    create_topics(empty_kafka, (EXPECTED["clock"],))
    resized = expected_topics(empty_kafka.settings.model_copy(update={"partitions": 8}))
    with pytest.raises(TopicsRefused, match="clock: partitions: expected 8, found 4"):
        create_topics(empty_kafka, resized, mend=True)
    assert set(find_topics(empty_kafka, expected_names())) == {"clock"}
    for answer in empty_kafka.admin.create_partitions([NewPartitions("clock", 5)]).values():
        answer.result()
    assert eventually(lambda: find_topics(empty_kafka, ["clock"])["clock"].partitions == 5)
    with pytest.raises(TopicsRefused, match="clock: partitions: expected 4, found 5"):
        create_topics(empty_kafka, expected_topics(empty_kafka.settings))
