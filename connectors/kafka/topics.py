"""Expected topics, and their differences from existing topics.

The expected topics are the topics of `schemas.topics.catalog` and the changelogs of its tables. They must
exist before a worker starts: Faust creates topics too late for the first assignment. Existing topics
are compared setting by setting. Each difference is reported with advice. If a broker does not report
a setting, the setting counts as unknown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from schemas.base.limits import BATCH_BYTES_MAX
from schemas.settings.connection import APP_ID, KafkaSettings
from schemas.storage.tables import TABLES
from schemas.topics.catalog import TOPICS

#: Compaction ignores the newest segment. With Kafka's default of 1 GiB a worker would read outdated rows
#: for minutes at its start.
CHANGELOG_SEGMENT_BYTES = 64 * 1024 * 1024

#: Partitions of every topic in librdkafka's mock cluster; not configurable from Python.
EMBEDDED_PARTITIONS = 4

#: With this many copies, two brokers must acknowledge a record. Then one can be lost while another is down.
COPIES_ACKNOWLEDGED_TWICE = 3
ACKNOWLEDGED_TWICE: Mapping[str, str] = {"min.insync.replicas": "2"}

_INT64_MAX = 2**63 - 1

Grade = Literal["ok", "unknown", "differs", "missing"]


@dataclass(frozen=True, slots=True)
class ExpectedTopic:
    name: str
    partitions: int
    replication: int | None
    """None: the default of the brokers."""
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FoundTopic:
    name: str
    partitions: int
    replication: int
    """Smallest number of copies of any partition."""
    config: Mapping[str, str] | None
    """None: unknown, for the `reason`."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A setting of a topic that differs or is unknown."""

    topic: str
    verdict: Grade
    setting: str
    expected: str
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.setting}: expected {self.expected}, found {self.found}. {self.remedy}"


def changelog_name(table: str) -> str:
    """Return the topic in which Faust keeps the rows of a table."""
    return f"{APP_ID}-{table}-changelog"


def expected_names() -> tuple[str, ...]:
    """Return the names of all topics, changelogs last."""
    return (*(topic.name for topic in TOPICS), *(changelog_name(table.name) for table in TABLES))


def expected_topics(settings: KafkaSettings) -> tuple[ExpectedTopic, ...]:
    """Return all topics with the settings that they must have."""
    common = {
        "max.message.bytes": str(BATCH_BYTES_MAX),
        # Keep the producer's timestamps: the broker's clock would make replayed history look new.
        "message.timestamp.type": "CreateTime",
        # Accelerated runs are ahead of the broker's clock. The stages themselves refuse samples from the future.
        "message.timestamp.after.max.ms": str(_INT64_MAX),
    }
    if (settings.replication_factor or 0) >= COPIES_ACKNOWLEDGED_TWICE:
        common |= ACKNOWLEDGED_TWICE
    configs: dict[str, dict[str, str]] = {}
    for topic in TOPICS:
        if topic.compacted:
            retention = {
                "cleanup.policy": "compact",
                "min.compaction.lag.ms": str(topic.compaction_lag_ms),
            }
        else:
            retention = {"cleanup.policy": "delete", "retention.ms": str(topic.retention_ms)}
        configs[topic.name] = common | retention
    for table in TABLES:
        configs[changelog_name(table.name)] = common | {
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": "0",
            "segment.bytes": str(CHANGELOG_SEGMENT_BYTES),
        }
    return tuple(
        ExpectedTopic(name, settings.partitions, settings.replication_factor, config)
        for name, config in configs.items()
    )


def compare(expected: ExpectedTopic, existing: FoundTopic | None) -> list[Finding]:
    """Return the findings about one topic; empty if all settings are known and as expected."""
    name = expected.name
    if existing is None:
        remedy = "Create it with `loadstream topic create`."
        return [Finding(name, "missing", "topic", "to exist", "none", remedy)]
    findings = []
    if existing.partitions != expected.partitions:
        findings.append(
            Finding(
                name, "differs", "partitions", str(expected.partitions), str(existing.partitions),
                "loadstream refuses this: with another number, keys hash to other partitions, and two workers "
                f"would write one cluster. Set LOADSTREAM_KAFKA_PARTITIONS={existing.partitions} if all topics have "
                "this number. Otherwise delete this topic, create it with `loadstream topic create`, and run "
                "`loadstream partition reset` for every partition.",
            )
        )  # fmt: skip
    if expected.replication is not None and existing.replication != expected.replication:
        findings.append(
            Finding(
                name, "differs", "replication", str(expected.replication), str(existing.replication),
                "Move it with Kafka's kafka-reassign-partitions.sh, or set "
                f"LOADSTREAM_KAFKA_REPLICATION_FACTOR={existing.replication}.",
            )
        )  # fmt: skip
    return findings + _compare_config(expected, existing)


def _compare_config(expected: ExpectedTopic, existing: FoundTopic) -> list[Finding]:
    if existing.config is None:
        settings = ", ".join(expected.config)
        remedy = f"The settings cannot be compared: {existing.reason}."
        return [Finding(existing.name, "unknown", settings, "as documented", "unknown", remedy)]
    name, findings = existing.name, []
    expected_config = dict(expected.config)
    if existing.replication >= COPIES_ACKNOWLEDGED_TWICE:  # also if it is the brokers' default
        expected_config |= ACKNOWLEDGED_TWICE
    for setting, expected_value in expected_config.items():
        value = existing.config.get(setting)
        if value is None:
            remedy = "This broker does not know the setting (Kafka 3.6 or newer does)."
            findings.append(Finding(name, "unknown", setting, expected_value, "unknown", remedy))
        elif value != expected_value:
            remedy = "Set it with `loadstream topic create --mend`."
            findings.append(Finding(name, "differs", setting, expected_value, value, remedy))
    return findings


def compare_all(
    expected: Iterable[ExpectedTopic], existing: Mapping[str, FoundTopic]
) -> dict[str, list[Finding]]:
    """Return the findings about every expected topic, by name."""
    return {topic.name: compare(topic, existing.get(topic.name)) for topic in expected}


def find_worst_grade(findings: Iterable[Finding]) -> Grade:
    """Return the most serious of the findings about one topic."""
    grades = {finding.verdict for finding in findings}
    order: tuple[Grade, ...] = ("missing", "differs", "unknown")
    return next((grade for grade in order if grade in grades), "ok")
