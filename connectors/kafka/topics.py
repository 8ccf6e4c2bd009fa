"""Which topics must exist, and how they differ from those that do.

Expected are all topics of `schemas.topics.catalog` and the changelogs of its tables. They are made before a
worker starts: a topic that Faust makes by itself comes too late for the first assignment. What is
found is compared setting by setting. A difference is reported with the way to mend it; what a
broker does not say is unknown and never passes for right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from schemas.base.limits import BATCH_BYTES_MAX
from schemas.settings.connection import APP_ID, KafkaSettings
from schemas.storage.tables import TABLES
from schemas.topics.catalog import TOPICS

#: A changelog is compacted segment by segment and never in its newest one. Kafka's default of 1 GiB
#: would leave superseded rows that a worker reads for minutes before it is ready.
CHANGELOG_SEGMENT_BYTES = 64 * 1024 * 1024

#: Partitions that librdkafka's mock cluster gives every topic; not configurable from Python.
EMBEDDED_PARTITIONS = 4

#: With this many copies a record counts as written when two brokers have it: one may be lost at any
#: moment, and another may be away.
COPIES_ACKNOWLEDGED_TWICE = 3
ACKNOWLEDGED_TWICE: Mapping[str, str] = {"min.insync.replicas": "2"}

_INT64_MAX = 2**63 - 1

Grade = Literal["ok", "unknown", "differs", "missing"]


@dataclass(frozen=True, slots=True)
class ExpectedTopic:
    """A topic as it must be."""

    name: str
    partitions: int
    replication: int | None
    """None: whatever the brokers' default is."""
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FoundTopic:
    """A topic as it is."""

    name: str
    partitions: int
    replication: int
    """Fewest copies of any partition."""
    config: Mapping[str, str] | None
    """None: the broker does not say; `reason` says why."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with one setting of a topic, or cannot be known."""

    topic: str
    verdict: Grade
    setting: str
    expected: str
    found: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.setting}: expected {self.expected}, found {self.found}. {self.remedy}"


def changelog_name(table: str) -> str:
    """Topic that Faust keeps the rows of a table in."""
    return f"{APP_ID}-{table}-changelog"


def expected_names() -> tuple[str, ...]:
    """Names of all topics, those of the data's path first."""
    return (*(topic.name for topic in TOPICS), *(changelog_name(table.name) for table in TABLES))


def expected_topics(settings: KafkaSettings) -> tuple[ExpectedTopic, ...]:
    """All topics as these settings want them."""
    common = {
        "max.message.bytes": str(BATCH_BYTES_MAX),
        # Records carry their own time; the broker's clock would make history look new.
        "message.timestamp.type": "CreateTime",
        # A sped-up run is ahead of the broker's clock; the stages refuse samples from the future.
        "message.timestamp.after.max.ms": str(_INT64_MAX),
    }
    if (settings.replication_factor or 0) >= COPIES_ACKNOWLEDGED_TWICE:
        common |= ACKNOWLEDGED_TWICE
    configs: dict[str, dict[str, str]] = {}
    for topic in TOPICS:
        if topic.compacted:
            own = {
                "cleanup.policy": "compact",
                "min.compaction.lag.ms": str(topic.compaction_lag_ms),
            }
        else:
            own = {"cleanup.policy": "delete", "retention.ms": str(topic.retention_ms)}
        configs[topic.name] = common | own
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


def compare(expected: ExpectedTopic, found: FoundTopic | None) -> list[Finding]:
    """What is to be reported about one topic; empty if it is as expected and all is known."""
    name = expected.name
    if found is None:
        remedy = "Make it with `loadstream topic create`."
        return [Finding(name, "missing", "topic", "to exist", "none", remedy)]
    findings = []
    if found.partitions != expected.partitions:
        findings.append(
            Finding(
                name, "differs", "partitions", str(expected.partitions), str(found.partitions),
                "This is refused: with another count keys hash to other partitions, and two workers "
                f"would write one cluster. Set LOADSTREAM_KAFKA_PARTITIONS={found.partitions} if all topics have "
                "as many. Otherwise delete this topic, make it with `loadstream topic create`, and run "
                "`loadstream partition reset` for every partition.",
            )
        )  # fmt: skip
    if expected.replication is not None and found.replication != expected.replication:
        findings.append(
            Finding(
                name, "differs", "replication", str(expected.replication), str(found.replication),
                "Move it with Kafka's kafka-reassign-partitions.sh, or set "
                f"LOADSTREAM_KAFKA_REPLICATION_FACTOR={found.replication}.",
            )
        )  # fmt: skip
    return findings + _compare_config(expected, found)


def _compare_config(expected: ExpectedTopic, found: FoundTopic) -> list[Finding]:
    if found.config is None:
        settings = ", ".join(expected.config)
        remedy = f"It cannot be known: {found.reason}."
        return [Finding(found.name, "unknown", settings, "as documented", "unknown", remedy)]
    findings = []
    wanted_of = dict(expected.config)
    if found.replication >= COPIES_ACKNOWLEDGED_TWICE:  # whether asked for or the brokers' default
        wanted_of |= ACKNOWLEDGED_TWICE
    for setting, wanted in wanted_of.items():
        value = found.config.get(setting)
        if value is None:
            remedy = "This broker does not know the setting (Kafka 3.6 or newer does)."
            findings.append(Finding(found.name, "unknown", setting, wanted, "unknown", remedy))
        elif value != wanted:
            remedy = "Set it with `loadstream topic create --mend`."
            findings.append(Finding(found.name, "differs", setting, wanted, value, remedy))
    return findings


def compare_all(
    expected: Iterable[ExpectedTopic], found: Mapping[str, FoundTopic]
) -> dict[str, list[Finding]]:
    """Findings of every expected topic, by its name."""
    return {topic.name: compare(topic, found.get(topic.name)) for topic in expected}


def verdict(findings: Iterable[Finding]) -> Grade:
    """The gravest of the findings about one topic."""
    found = {finding.verdict for finding in findings}
    gravest: tuple[Grade, ...] = ("missing", "differs", "unknown")
    return next((grave for grave in gravest if grave in found), "ok")
