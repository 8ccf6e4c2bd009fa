"""Records of a topic as they arrive, without a consumer group, so no committed offset changes.

A bounded read stops at the offsets where the partitions ended at its start. A following read continues.
Records are in order within a partition, and so within a cluster. Deleted records are reported as a
`Gap`: the embedded broker keeps about 5 MB per partition, a real broker keeps records by its retention.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import orjson

from connectors.kafka.client import Connection
from connectors.kafka.extents import Extent, find_offsets_since, read_topic_extents
from connectors.kafka.reader import Gap, Partition, Reader
from connectors.units import duration_ms
from schemas.base.message import INT64_MIN
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import DeadLetter, parse_cluster
from schemas.topics.catalog import Topic
from schemas.topics.codec import decode

#: Where reading begins; a number is a record timestamp in milliseconds since 1970.
Start = Literal["beginning", "end"] | int


@dataclass(frozen=True, slots=True)
class Entry:
    """A record and its message."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    message: Any
    """The message, or a Refusal if the record is invalid."""

    @property
    def cluster(self) -> str | None:
        """Cluster of the record, from its message or its key.

        A dead letter belongs to the cluster of its source record.
        """
        if isinstance(self.message, DeadLetter):
            return parse_cluster(self.message)
        cluster = getattr(self.message, "cluster", None)
        if cluster is None and isinstance(self.message, Refusal) and self.key is not None:
            cluster = self.key.decode(errors="replace").partition("/")[0]
        return cluster


def parse_start(text: str, now_ms: int) -> Start:
    """Parse `beginning`, `end`, an age (`15m`), ISO 8601 (default zone: UTC), or epoch milliseconds.

    Raises ValueError with a sentence for other texts.
    """
    if text in ("beginning", "end"):
        return text  # type: ignore[return-value]  # mypy keeps `str`
    try:
        return parse_time(text, now_ms)
    except ValueError as error:
        raise ValueError(f"{error}, or beginning, or end") from None


def parse_time(text: str, now_ms: int) -> int:
    """Parse a time into milliseconds since 1970. Raises ValueError with a sentence."""
    if (ago_ms := duration_ms(text)) is not None:
        return now_ms - ago_ms
    if text.isascii() and text.isdecimal() and len(text) == 13:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"found {text!r}; expected an age such as 15m or 2h, a time such as 2026-11-20T14:00:00Z (default "
            "zone: UTC), or milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def read_entries(
    connection: Connection,
    topic: Topic,
    start: Start,
    *,
    follow: bool,
    last: int | None = None,
    extents: tuple[Extent, ...] | None = None,
) -> Iterator[Entry | Gap]:
    """Yield records from `start` to the end, or forever; at most the `last` ones of each partition.

    `extents` are first and next offsets of the partitions; None: the current ones. Raises
    BrokerUnavailable if the topic does not exist, or no broker answers for `connect_timeout_s` while
    records are missing.
    """
    extents = extents or read_topic_extents(connection, topic.name)
    if last is not None:
        extents = tuple(
            replace(extent, first_offset=max(extent.first_offset, extent.next_offset - last))
            for extent in extents
        )
    starts = _find_starts(connection, topic.name, start, extents)
    ends = {(topic.name, extent.partition): extent.next_offset for extent in extents}
    for extent in extents:
        first = starts[topic.name, extent.partition]
        # A read from the beginning starts at offset 0.
        if start != "end" and last is None and first == extent.first_offset > 0:
            yield Gap(topic.name, extent.partition, 0, first)
    starts = {p: first for p, first in starts.items() if follow or first < ends[p]}
    # Without a start time, all timestamps are accepted, even negative ones.
    since_ms = start if isinstance(start, int) else INT64_MIN
    with Reader(connection, starts) as reader:
        unfinished = set(starts)
        while unfinished:
            for record in reader.more(due=not follow):
                if isinstance(record, Gap):
                    yield record
                elif record.timestamp_ms >= since_ms and (
                    follow or record.offset < ends[record.topic, record.partition]
                ):
                    yield Entry(*record, decode(topic.name, record.value))
            if not follow:
                unfinished = {p for p in unfinished if not reader.has_passed(p, ends[p])}


def _find_starts(
    connection: Connection, topic: str, start: Start, extents: tuple[Extent, ...]
) -> dict[Partition, int]:
    if start == "end":
        return {(topic, extent.partition): extent.next_offset for extent in extents}
    # The embedded broker cannot find offsets by time: older records are read and skipped.
    if start == "beginning" or connection.embedded:
        return {(topic, extent.partition): extent.first_offset for extent in extents}
    # Brokers interpret negative times as other requests, or refuse them.
    since = find_offsets_since(connection, topic, len(extents), max(0, start))
    return {
        (topic, extent.partition): max(
            extent.first_offset, first if first >= 0 else extent.next_offset
        )
        for extent, first in zip(extents, since, strict=True)
    }


def format_json(entry: Entry, state: Callable[[Entry], str] | None = None) -> str:
    """Return the record with its position as one JSON object; an invalid value as base64.

    `state` returns the state of a record; None: unknown.
    """
    record: dict[str, Any] = {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp_ms": entry.timestamp_ms,
        "key": None if entry.key is None else entry.key.decode(errors="replace"),
    }
    if state is not None:
        record["state"] = state(entry)
    if isinstance(entry.message, Refusal):
        value = None if entry.value is None else b64encode(entry.value).decode()
        record |= {"refused": entry.message.reason, "value_base64": value}
    else:
        try:
            # The original value, including fields that this version does not know.
            record["value"] = orjson.loads(entry.value or b"")
        except orjson.JSONDecodeError:
            # The validator accepts NaN, which is not JSON.
            record["value"] = entry.message.payload()
    return orjson.dumps(record).decode()


_KEYS_WITH_CLUSTER = ("cluster", "cluster/node", "source topic")


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters of records; without a filter all records are selected."""

    cluster: str | None = None
    pod: tuple[str, str] | None = None
    """Namespace and name."""
    kind: str | None = None
    """Value of the messages' field `kind`."""

    @classmethod
    def of(
        cls,
        topic: Topic,
        cluster: str | None,
        pod: tuple[str, str] | None,
        kind: str | None = None,
    ) -> "Selection":
        """Return a selection; raises ValueError if the topic's records lack a selected property."""
        if cluster is not None and topic.key not in _KEYS_WITH_CLUSTER:
            raise ValueError(
                f"--cluster: records of {topic.name} do not belong to a single cluster (their key is the "
                f"{topic.key})"
            )
        if pod is not None and not any(
            "pod" in cls.model_fields or "pods" in cls.model_fields for cls in topic.classes
        ):
            raise ValueError(f"--pod: records of {topic.name} do not belong to a pod")
        fields = (message_class.model_fields.get("kind") for message_class in topic.classes)
        kinds = [field.default for field in fields if field is not None]
        if kind is not None and kind not in kinds:
            allowed = f"allowed are {', '.join(kinds)}" if kinds else "its records have no kind"
            raise ValueError(f"--kind: found {kind!r} for {topic.name}; {allowed}")
        return cls(cluster, pod, kind)

    @property
    def is_filtering(self) -> bool:
        return self != Selection()

    def matches(self, entry: Entry) -> bool:
        if self.cluster is not None and entry.cluster != self.cluster:
            return False
        if self.kind is not None and getattr(entry.message, "kind", None) != self.kind:
            return False
        if self.pod is None:
            return True
        pod = getattr(entry.message, "pod", None)
        pods = (*getattr(entry.message, "pods", ()), *([] if pod is None else [pod]))
        return any((pod.namespace, pod.name) == self.pod for pod in pods)
