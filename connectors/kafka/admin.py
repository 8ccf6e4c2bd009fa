"""Topics on a broker: read them, make those that are missing, mend settings, read their extent.

On the embedded broker topics are made by asking for their metadata, and their settings are unknown:
it does not answer such requests.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from connectors.kafka.client import BrokerUnavailable, Connection
from connectors.kafka.topics import (
    ACKNOWLEDGED_TWICE,
    EMBEDDED_PARTITIONS,
    ExpectedTopic,
    Finding,
    FoundTopic,
    compare_all,
)

_LEADER_TIMEOUT_S = 30.0
#: How long brokers may answer with a setting as it was before they took a new one.
_SETTING_TIMEOUT_S = 30.0
#: What a broker answers about a partition whose leader is about to be chosen, or has just moved.
_LEADER_ERRORS = frozenset(
    (
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "REPLICA_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_OR_PART",
        # librdkafka's own word for having found no leader at all.
        "_NOENT",
    )
)
_EMBEDDED_REASON = "the embedded broker has no topic settings and answers no question about them"


class TopicsRefused(RuntimeError):
    """Topics exist with another number of partitions; nothing was made."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What one partition holds."""

    partition: int
    first_offset: int
    next_offset: int
    """Offset that the next record gets; the difference is the most records that there can be."""


def find_topics(connection: Connection, names: Iterable[str]) -> dict[str, FoundTopic]:
    """Those of the topics that exist."""
    metadata = _call(connection, lambda t: connection.admin.list_topics(timeout=t)).topics
    names = [name for name in names if name in metadata and metadata[name].error is None]
    configs = _configs(connection, names)
    found = {}
    for name in names:
        partitions = metadata[name].partitions.values()
        config, reason = configs[name]
        found[name] = FoundTopic(
            name=name,
            partitions=len(partitions),
            replication=min((len(p.replicas) for p in partitions), default=0),
            config=config,
            reason=reason,
        )
    return found


def _configs(
    connection: Connection, names: list[str]
) -> dict[str, tuple[dict[str, str] | None, str]]:
    if connection.embedded:
        return dict.fromkeys(names, (None, _EMBEDDED_REASON))
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType

    if not names:
        return {}
    wanted = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    timeout_s = connection.settings.connect_timeout_s
    answers = connection.admin.describe_configs(wanted, request_timeout=timeout_s)
    result: dict[str, tuple[dict[str, str] | None, str]] = {}
    for resource, answer in answers.items():
        try:
            entries = answer.result().values()
            result[resource.name] = ({entry.name: entry.value for entry in entries}, "")
        except KafkaException as error:
            result[resource.name] = (None, f"the broker does not say ({error.args[0].str()})")
    return result


def create_topics(
    connection: Connection, expected: tuple[ExpectedTopic, ...], *, mend: bool = False
) -> tuple[list[str], dict[str, list[Finding]]]:
    """Make what is missing; with `mend`, also set the settings that differ.

    Answers with the names made and with what still differs. Raises TopicsRefused, and makes
    nothing, if a topic has another number of partitions: topics of two counts would not meet in one
    worker.
    """
    names = [topic.name for topic in expected]
    found = find_topics(connection, names)
    report = compare_all(expected, found)
    refused = [f for fs in report.values() for f in fs if f.setting == "partitions"]
    if connection.embedded:
        refused += _embedded_refusals(expected, found)
    if refused:
        raise TopicsRefused("\n".join(str(finding) for finding in refused))
    missing = [topic for topic in expected if topic.name not in found]
    if connection.embedded:
        for topic in missing:
            _call(connection, lambda t, n=topic.name: connection.admin.list_topics(n, timeout=t))
    elif missing:
        missing = _create(connection, missing)
        # A topic that was made has leaders on all brokers a moment later; its offsets show that.
        read_extents(
            connection,
            [FoundTopic(t.name, t.partitions, t.replication or 0, None) for t in missing],
        )
    made = [topic.name for topic in missing]
    mended: list[Finding] = []
    if not connection.embedded:
        differing = [f for fs in report.values() for f in fs if f.verdict == "differs"]
        wrong = [*(differing if mend else ()), *_by_copies(connection, expected, made)]
        mended = [f for f in wrong if f.setting not in ("partitions", "replication")]
        _mend(connection, mended)
    return made, _report_after(connection, expected, mended)


def _report_after(
    connection: Connection, expected: tuple[ExpectedTopic, ...], mended: list[Finding]
) -> dict[str, list[Finding]]:
    """What still differs; a broker goes by a setting a moment after it was taken, which is waited
    for."""
    places = {(finding.topic, finding.setting) for finding in mended}
    deadline = time.monotonic() + _SETTING_TIMEOUT_S
    while True:
        found = find_topics(connection, [topic.name for topic in expected])
        report = compare_all(expected, found)
        differing = {(f.topic, f.setting) for findings in report.values() for f in findings}
        if not places & differing or time.monotonic() > deadline:
            return report
        time.sleep(0.05)


def _by_copies(
    connection: Connection, expected: tuple[ExpectedTopic, ...], made: list[str]
) -> list[Finding]:
    """What new topics lack since their copies are the brokers' default, known only when they are
    there."""
    of_default = [topic for topic in expected if topic.name in made and topic.replication is None]
    found = find_topics(connection, [topic.name for topic in of_default])
    report = compare_all(of_default, found).values()
    findings = (finding for each in report for finding in each)
    return [f for f in findings if f.setting in ACKNOWLEDGED_TWICE and f.verdict == "differs"]


def _embedded_refusals(
    expected: tuple[ExpectedTopic, ...], found: dict[str, FoundTopic]
) -> list[Finding]:
    return [
        Finding(
            topic.name, "differs", "partitions", str(topic.partitions), str(EMBEDDED_PARTITIONS),
            f"The embedded broker gives every topic {EMBEDDED_PARTITIONS} partitions; set "
            f"LOADSTREAM_KAFKA_PARTITIONS={EMBEDDED_PARTITIONS} or use a real Kafka.",
        )
        for topic in expected
        if topic.partitions != EMBEDDED_PARTITIONS and topic.name not in found
    ]  # fmt: skip


def _create(connection: Connection, missing: list[ExpectedTopic]) -> list[ExpectedTopic]:
    """Make the topics; answers with those that no other client has made meanwhile."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    new = [
        NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication if topic.replication is not None else -1,
            config=dict(topic.config),
        )
        for topic in missing
    ]
    timeout_s = connection.settings.connect_timeout_s
    made = set()
    for name, answer in connection.admin.create_topics(new, request_timeout=timeout_s).items():
        try:
            answer.result()
            made.add(name)
        except KafkaException as error:
            # The comparison afterwards shows whether what another client made is right.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise BrokerUnavailable(_refusal("create topic", name, error, connection)) from None
    return [topic for topic in missing if topic.name in made]


def _mend(connection: Connection, findings: list[Finding]) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    changes: dict[str, Any] = {}
    for finding in findings:
        resource = changes.setdefault(
            finding.topic, ConfigResource(ResourceType.TOPIC, finding.topic)
        )
        resource.add_incremental_config(
            ConfigEntry(
                finding.setting, finding.expected, incremental_operation=AlterConfigOpType.SET
            )
        )
    if not changes:
        return
    timeout_s = connection.settings.connect_timeout_s
    answers = connection.admin.incremental_alter_configs(
        list(changes.values()), request_timeout=timeout_s
    )
    for resource, answer in answers.items():
        try:
            answer.result()
        except KafkaException as error:
            raise BrokerUnavailable(
                _refusal("set settings of topic", resource.name, error, connection)
            ) from None


def partitions_of(connection: Connection, topic: str) -> int:
    """How many a topic has. Raises BrokerUnavailable if it does not exist."""
    topics = _call(connection, lambda t: connection.admin.list_topics(timeout=t)).topics
    if topic not in topics or topics[topic].error is not None:
        raise BrokerUnavailable(
            f"topic {topic} does not exist at {','.join(connection.settings.servers())}; make all "
            "topics with `loadstream topics create`"
        )
    return len(topics[topic].partitions)


def check_partitions(connection: Connection, topic: str) -> None:
    """Raises BrokerUnavailable where a topic has another number of partitions than the settings say."""
    found, said = partitions_of(connection, topic), connection.settings.partitions
    if found != said:
        raise BrokerUnavailable(
            f"topic {topic} has {found} partitions; LOADSTREAM_KAFKA_PARTITIONS says {said}: set it "
            f"to {found}"
        )


def extents_of(connection: Connection, topic: str) -> tuple[Extent, ...]:
    """First and next offset of every partition. Raises BrokerUnavailable if there is no such topic."""
    found = FoundTopic(topic, partitions_of(connection, topic), 0, None)
    return read_extents(connection, [found])[topic]


def offsets_since(connection: Connection, topic: str, partitions: int, since_ms: int) -> list[int]:
    """First offset of each partition with a record so new; -1: it has none."""
    from confluent_kafka.admin import OffsetSpec

    places = [(topic, number) for number in range(partitions)]
    found = _read_offsets(connection, places, OffsetSpec.for_timestamp(since_ms))
    return [found[place] for place in places]


def read_extents(
    connection: Connection, topics: Iterable[FoundTopic]
) -> dict[str, tuple[Extent, ...]]:
    """First and next offset of every partition of the topics."""
    from confluent_kafka.admin import OffsetSpec

    topics = list(topics)
    places = [(topic.name, p) for topic in topics for p in range(topic.partitions)]
    if not places:
        return {}
    first, following = (
        _read_offsets(connection, places, spec)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    return {
        topic.name: tuple(
            Extent(p, first[topic.name, p], following[topic.name, p])
            for p in range(topic.partitions)
        )
        for topic in topics
    }


def _read_offsets(
    connection: Connection, places: list[tuple[str, int]], spec: Any
) -> dict[tuple[str, int], int]:
    """One offset of each partition; a leader that is being chosen is waited for."""
    from confluent_kafka import OFFSET_INVALID, KafkaException, TopicPartition

    offsets: dict[tuple[str, int], int] = {}
    deadline = time.monotonic() + _LEADER_TIMEOUT_S
    while True:
        missing = {TopicPartition(*place): spec for place in places if place not in offsets}
        if not missing:
            return offsets
        timeout_s = connection.settings.connect_timeout_s
        answers = connection.admin.list_offsets(missing, request_timeout=timeout_s)
        for place, answer in answers.items():
            try:
                found = answer.result().offset
            except KafkaException as error:
                waits = error.args[0].name() in _LEADER_ERRORS and time.monotonic() < deadline
                if not waits:
                    what = f"{place.topic} partition {place.partition}"
                    raise BrokerUnavailable(
                        _refusal("report the offsets of", what, error, connection)
                    ) from None
            else:
                if found == OFFSET_INVALID:  # librdkafka's word for no answer in time
                    raise _silent(connection, timeout_s)
                offsets[place.topic, place.partition] = found
        if len(offsets) < len(places):
            time.sleep(0.05)
            # librdkafka takes a topic that was missing for missing still, for half a minute, unless
            # it hears otherwise.
            _call(connection, lambda t: connection.admin.list_topics(timeout=t))


def _call(connection: Connection, request: Any) -> Any:
    from confluent_kafka import KafkaException

    timeout_s = connection.settings.connect_timeout_s
    try:
        return request(timeout_s)
    except KafkaException:
        raise _silent(connection, timeout_s) from None


def _silent(connection: Connection, waited_s: float) -> BrokerUnavailable:
    """That no broker has answered, and why."""
    connection.admin.poll(0)  # runs the error callback
    return BrokerUnavailable(connection.failures.explain(connection.settings, waited_s))


def _refusal(action: str, name: str, error: Any, connection: Connection) -> str:
    servers = ",".join(connection.settings.servers())
    return f"{servers} did not {action} {name}: {error.args[0].str()}"
