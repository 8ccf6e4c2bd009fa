"""Topics on a broker: find them, create missing ones, repair their settings.

The embedded broker creates topics when their metadata is requested. It does not answer requests for
settings, so they are unknown.
"""

import time
from collections.abc import Iterable
from typing import Any

from connectors.kafka.client import Connection
from connectors.kafka.extents import read_extents
from connectors.kafka.topics import (
    ACKNOWLEDGED_TWICE,
    EMBEDDED_PARTITIONS,
    ExpectedTopic,
    Finding,
    FoundTopic,
    compare_all,
)

#: How long brokers may report the old value of a changed setting.
_SETTING_TIMEOUT_S = 30.0
_EMBEDDED_REASON = "the embedded broker has no topic settings"


class TopicsRefused(RuntimeError):
    """Existing topics have another number of partitions; nothing was created."""


def find_topics(connection: Connection, names: Iterable[str]) -> dict[str, FoundTopic]:
    """Return the existing ones of these topics."""
    metadata = connection.ask(lambda t: connection.admin.list_topics(timeout=t)).topics
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
            result[resource.name] = (
                None,
                f"the broker does not report them ({error.args[0].str()})",
            )
    return result


def create_topics(
    connection: Connection, expected: tuple[ExpectedTopic, ...], *, mend: bool = False
) -> tuple[list[str], dict[str, list[Finding]]]:
    """Create missing topics; with `mend`, also correct settings that differ.

    Returns the names of created topics and the remaining differences. Raises TopicsRefused, and
    creates nothing, if a topic has another number of partitions, because a cluster's partition must be
    the same in all topics.
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
            _create_embedded(connection, topic.name)
    elif missing:
        missing = _create(connection, missing)
        # Wait until the new topics have leaders, by reading their offsets.
        read_extents(
            connection,
            [FoundTopic(t.name, t.partitions, t.replication or 0, None) for t in missing],
        )
    created = [topic.name for topic in missing]
    mended: list[Finding] = []
    if not connection.embedded:
        differing = [f for fs in report.values() for f in fs if f.verdict == "differs"]
        wrong = [*(differing if mend else ()), *_compare_copies(connection, expected, created)]
        mended = [f for f in wrong if f.setting not in ("partitions", "replication")]
        _mend(connection, mended)
    return created, _report_after(connection, expected, mended)


def _create_embedded(connection: Connection, name: str) -> None:
    connection.ask(lambda timeout_s: connection.admin.list_topics(name, timeout=timeout_s))


def _report_after(
    connection: Connection, expected: tuple[ExpectedTopic, ...], mended: list[Finding]
) -> dict[str, list[Finding]]:
    """Return the remaining differences; waits until brokers report the changed settings."""
    changed = {(finding.topic, finding.setting) for finding in mended}
    deadline = time.monotonic() + _SETTING_TIMEOUT_S
    while True:
        found = find_topics(connection, [topic.name for topic in expected])
        report = compare_all(expected, found)
        differing = {(f.topic, f.setting) for findings in report.values() for f in findings}
        if not changed & differing or time.monotonic() > deadline:
            return report
        time.sleep(0.05)


def _compare_copies(
    connection: Connection, expected: tuple[ExpectedTopic, ...], created: list[str]
) -> list[Finding]:
    """Return missing settings of new topics that depend on the brokers' default number of copies."""
    of_default = [
        topic for topic in expected if topic.name in created and topic.replication is None
    ]
    found = find_topics(connection, [topic.name for topic in of_default])
    report = compare_all(of_default, found).values()
    findings = (finding for topic_findings in report for finding in topic_findings)
    return [f for f in findings if f.setting in ACKNOWLEDGED_TWICE and f.verdict == "differs"]


def _embedded_refusals(
    expected: tuple[ExpectedTopic, ...], found: dict[str, FoundTopic]
) -> list[Finding]:
    return [
        Finding(
            topic.name, "differs", "partitions", str(topic.partitions), str(EMBEDDED_PARTITIONS),
            f"Topics of the embedded broker have {EMBEDDED_PARTITIONS} partitions; set "
            f"LOADSTREAM_KAFKA_PARTITIONS={EMBEDDED_PARTITIONS} or use a real Kafka.",
        )
        for topic in expected
        if topic.partitions != EMBEDDED_PARTITIONS and topic.name not in found
    ]  # fmt: skip


def _create(connection: Connection, missing: list[ExpectedTopic]) -> list[ExpectedTopic]:
    """Create the topics; return those that no other client has created meanwhile."""
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
            raise connection.refusal("set settings of topic", resource.name, error) from None
