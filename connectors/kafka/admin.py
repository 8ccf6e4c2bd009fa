"""Topics and consumer groups on a broker: find them, create missing topics, repair their settings.

The embedded broker creates topics when their metadata is requested. It does not answer requests for
settings, so the settings of its topics are unknown.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from connectors.kafka.client import Connection
from connectors.kafka.extents import read_extents
from connectors.kafka.reader import Partition
from connectors.kafka.topics import (
    ACKNOWLEDGED_TWICE,
    EMBEDDED_PARTITIONS,
    ExpectedTopic,
    Finding,
    FoundTopic,
    compare_all,
)

#: How long brokers may report the old value of a changed setting, in seconds.
_SETTING_TIMEOUT_S = 30.0
#: Errors of requests that no broker has answered.
_NO_ANSWER = frozenset(("_TIMED_OUT", "_TRANSPORT", "REQUEST_TIMED_OUT"))
_EMBEDDED_REASON = "the embedded broker has no topic settings"


class TopicsRefused(RuntimeError):
    """An existing topic has an unexpected number of partitions; nothing was created."""


def find_topics(connection: Connection, names: Iterable[str]) -> dict[str, FoundTopic]:
    """Return the topics that exist, by name."""
    metadata = connection.read_metadata().topics
    names = [name for name in names if name in metadata and metadata[name].error is None]
    configs = _read_configs(connection, names)
    existing = {}
    for name in names:
        partitions = metadata[name].partitions.values()
        config, reason = configs[name]
        existing[name] = FoundTopic(
            name=name,
            partitions=len(partitions),
            replication=min((len(p.replicas) for p in partitions), default=0),
            config=config,
            reason=reason,
        )
    return existing


def _read_configs(
    connection: Connection, names: list[str]
) -> dict[str, tuple[dict[str, str] | None, str]]:
    if connection.embedded:
        return dict.fromkeys(names, (None, _EMBEDDED_REASON))
    if not names:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    timeout_s = connection.settings.connect_timeout_s
    answers = connection.admin.describe_configs(resources, request_timeout=timeout_s)
    result: dict[str, tuple[dict[str, str] | None, str]] = {}
    for resource, answer in answers.items():
        try:
            entries = answer.result().values()
            result[resource.name] = ({entry.name: entry.value for entry in entries}, "")
        except KafkaException as error:
            if error.args[0].name() in _NO_ANSWER:
                raise connection.silent(timeout_s) from None
            result[resource.name] = (
                None,
                f"the broker does not report settings ({error.args[0].str()})",
            )
    return result


def create_topics(
    connection: Connection, expected: tuple[ExpectedTopic, ...], *, mend: bool = False
) -> tuple[list[str], dict[str, list[Finding]]]:
    """Create missing topics; with `mend`, also correct settings that differ.

    Returns the names of created topics and the remaining differences. If a topic has an unexpected
    number of partitions, raises TopicsRefused and creates nothing, because a cluster's partition must
    be the same in all topics.
    """
    names = [topic.name for topic in expected]
    existing = find_topics(connection, names)
    report = compare_all(expected, existing)
    refused = [f for fs in report.values() for f in fs if f.setting == "partitions"]
    if connection.embedded:
        refused += _embedded_refusals(expected, existing)
    if refused:
        raise TopicsRefused("\n".join(str(finding) for finding in refused))
    missing = [topic for topic in expected if topic.name not in existing]
    if connection.embedded:
        # The embedded broker creates a topic when its metadata is requested.
        for topic in missing:
            connection.read_metadata(topic.name)
    elif missing:
        missing = _create(connection, missing)
        # Wait until the new topics have leaders, by reading their offsets.
        read_extents(connection, {topic.name: topic.partitions for topic in missing})
    created = [topic.name for topic in missing]
    mended: list[Finding] = []
    if not connection.embedded:
        differing = [f for fs in report.values() for f in fs if f.verdict == "differs"]
        wrong = [*(differing if mend else ()), *_compare_copies(connection, expected, created)]
        mended = [f for f in wrong if f.setting not in ("partitions", "replication")]
        _set_settings(connection, mended)
    return created, _report_remaining(connection, expected, mended)


def _report_remaining(
    connection: Connection, expected: tuple[ExpectedTopic, ...], mended: list[Finding]
) -> dict[str, list[Finding]]:
    """Return the remaining differences; waits until brokers report the changed settings."""
    changed = {(finding.topic, finding.setting) for finding in mended}
    deadline = time.monotonic() + _SETTING_TIMEOUT_S
    while True:
        existing = find_topics(connection, [topic.name for topic in expected])
        report = compare_all(expected, existing)
        differing = {(f.topic, f.setting) for findings in report.values() for f in findings}
        if not changed & differing or time.monotonic() > deadline:
            return report
        time.sleep(0.05)


def _compare_copies(
    connection: Connection, expected: tuple[ExpectedTopic, ...], created: list[str]
) -> list[Finding]:
    """Return missing settings of new topics that depend on the replication that brokers chose."""
    default_copies = [
        topic for topic in expected if topic.name in created and topic.replication is None
    ]
    existing = find_topics(connection, [topic.name for topic in default_copies])
    report = compare_all(default_copies, existing).values()
    findings = (finding for topic_findings in report for finding in topic_findings)
    return [f for f in findings if f.setting in ACKNOWLEDGED_TWICE and f.verdict == "differs"]


def _embedded_refusals(
    expected: tuple[ExpectedTopic, ...], existing: dict[str, FoundTopic]
) -> list[Finding]:
    return [
        Finding(
            topic.name, "differs", "partitions", str(topic.partitions), str(EMBEDDED_PARTITIONS),
            f"Topics of the embedded broker have {EMBEDDED_PARTITIONS} partitions; set "
            f"LOADSTREAM_KAFKA_PARTITIONS={EMBEDDED_PARTITIONS} or use a real Kafka.",
        )
        for topic in expected
        if topic.partitions != EMBEDDED_PARTITIONS and topic.name not in existing
    ]  # fmt: skip


def _create(connection: Connection, missing: list[ExpectedTopic]) -> list[ExpectedTopic]:
    """Create the topics; return those that no other client has created meanwhile."""
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
    created = set()
    for name, answer in connection.admin.create_topics(new, request_timeout=timeout_s).items():
        try:
            answer.result()
            created.add(name)
        except KafkaException as error:
            # The report afterwards compares topics that another client has created.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise connection.refusal("create topic", name, error) from None
    return [topic for topic in missing if topic.name in created]


def _set_settings(connection: Connection, findings: list[Finding]) -> None:
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
            raise connection.refusal("set settings of topic", resource.name, error) from None


@dataclass(frozen=True, slots=True)
class Member:
    """One process in a group."""

    host: str
    """Address of the process."""
    partitions: frozenset[Partition]
    """The partitions that the group assigned to the process."""


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group; a group that never existed has neither members nor offsets."""

    members: tuple[Member, ...] | None
    """None: the broker does not list them, for the `reason`."""
    committed: Mapping[Partition, int]
    """Offset of the next record to read, by partition."""
    reason: str = ""

    @property
    def has_existed(self) -> bool:
        """Whether the broker knows of a process that has joined the group."""
        return bool(self.members or self.committed)


def read_groups(connection: Connection, names: Collection[str]) -> dict[str, Group]:
    """Return the groups by name. Raises BrokerUnavailable if no broker answers."""
    admin, timeout_s = connection.admin, connection.settings.connect_timeout_s
    described = admin.describe_consumer_groups(list(names), request_timeout=timeout_s)
    offsets = {
        name: admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(name)], request_timeout=timeout_s
        )[name]
        for name in names
    }
    groups = {}
    for name in names:
        members, reason = _parse_members(connection, described[name])
        groups[name] = Group(members, _parse_committed(connection, offsets[name]), reason)
    return groups


def _parse_members(connection: Connection, answer: Any) -> tuple[tuple[Member, ...] | None, str]:
    """Return the members, or None and the reason why the broker does not list them."""
    description = _get_result(connection, answer)
    if isinstance(description, str):
        return None, description
    return tuple(
        Member(
            member.host.removeprefix("/"),
            frozenset(
                (partition.topic, partition.partition)
                for partition in (member.assignment.topic_partitions if member.assignment else ())
            ),
        )
        for member in (description.members if description else ())
    ), ""


def _parse_committed(connection: Connection, answer: Any) -> dict[Partition, int]:
    offsets = _get_result(connection, answer)
    if isinstance(offsets, str):
        return {}
    return {
        (partition.topic, partition.partition): partition.offset
        for partition in (offsets.topic_partitions if offsets else ())
        if partition.offset >= 0  # -1001: no committed offset
    }


def _get_result(connection: Connection, answer: Any) -> Any:
    """Return the answer of a broker, the text of its refusal, or None if the group does not exist."""
    try:
        return answer.result()
    except KafkaException as error:
        reason = error.args[0]
        if reason.name() in _NO_ANSWER:
            raise connection.silent(connection.settings.connect_timeout_s) from None
        if reason.name() == "GROUP_ID_NOT_FOUND":
            return None
        if reason.name() == "_UNSUPPORTED_FEATURE":
            return "this broker does not report it"
        return str(reason.str())
