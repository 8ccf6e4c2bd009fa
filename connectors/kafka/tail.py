"""Records of a topic as they come, read without a consumer group: no committed offset moves.

A bounded read ends at what was newest when it began; following goes on. The order holds within a
partition, and so within a cluster. Records that are gone are reported as a `Gap`: the
embedded broker drops the oldest after about 5 MB a partition, a real one by its retention.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import orjson

from connectors.kafka.client import Connection
from connectors.kafka.extents import Extent, extents_of, offsets_since
from connectors.kafka.reader import Gap, Partition, Reader
from connectors.units import duration_ms
from schemas.base.message import INT64_MIN
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import DeadLetter, cluster_of
from schemas.topics.catalog import Topic
from schemas.topics.codec import decode

#: Where reading begins: a time is in milliseconds since 1970 and means the timestamps of records.
Start = Literal["beginning", "end"] | int
#: How a time may be written.
TIMES = (
    "a time ago such as 15m or 2h, a time such as 2026-11-20T14:00:00Z (UTC unless said otherwise), or "
    "milliseconds since 1970"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One record and what it says."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    message: Any
    """The message, or a Refusal if the record holds none."""

    @property
    def cluster(self) -> str | None:
        """Cluster that the record is about, by its message or else by its key.

        A dead letter is about the cluster of the record in it.
        """
        if isinstance(self.message, DeadLetter):
            return cluster_of(self.message)
        named = getattr(self.message, "cluster", None)
        if named is None and isinstance(self.message, Refusal) and self.key is not None:
            named = self.key.decode(errors="replace").partition("/")[0]
        return named


def parse_start(text: str, now_ms: int) -> Start:
    """`beginning`, `end`, a time ago (`15m`), ISO 8601 (UTC unless said), or epoch milliseconds.

    Raises ValueError with a sentence if it is none of these.
    """
    if text in ("beginning", "end"):
        return text  # type: ignore[return-value]  # mypy keeps `str`
    found_ms = parse_time(text, now_ms)
    if found_ms is None:
        raise ValueError(f"found {text!r}; expected beginning, end, {TIMES}")
    return found_ms


def parse_time(text: str, now_ms: int) -> int | None:
    """Milliseconds since 1970 of one of `TIMES`; none: the text is none of these."""
    if (ago_ms := duration_ms(text)) is not None:
        return now_ms - ago_ms
    if text.isascii() and text.isdecimal() and len(text) == 13:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
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
    """Records from `start` to the end, or on and on; at most `last` of a partition.

    `extents` say where the partitions begin and end; none: as they do now.

    Raises BrokerUnavailable if the topic does not exist, or if no broker answers for
    `connect_timeout_s` while something is to be read.
    """
    extents = extents or extents_of(connection, topic.name)
    if last is not None:
        extents = tuple(
            replace(each, first_offset=max(each.first_offset, each.next_offset - last))
            for each in extents
        )
    starts = _starts(connection, topic.name, start, extents)
    ends = {(topic.name, each.partition): each.next_offset for each in extents}
    for each in extents:
        first = starts[topic.name, each.partition]
        # Reading from the beginning means record 0.
        if start != "end" and last is None and first == each.first_offset > 0:
            yield Gap(topic.name, each.partition, 0, first)
    starts = {place: first for place, first in starts.items() if follow or first < ends[place]}
    # From the beginning on any time will do, also what a producer takes for none, below 0.
    since_ms = start if isinstance(start, int) else INT64_MIN
    with Reader(connection, starts) as reader:
        unfinished = set(starts)
        while unfinished:
            for found in reader.more(due=not follow):
                if isinstance(found, Gap):
                    yield found
                elif found.timestamp_ms >= since_ms and (
                    follow or found.offset < ends[found.topic, found.partition]
                ):
                    yield Entry(*found, decode(topic.name, found.value))
            if not follow:
                unfinished = {p for p in unfinished if not reader.has_passed(p, ends[p])}


def _starts(
    connection: Connection, topic: str, start: Start, extents: tuple[Extent, ...]
) -> dict[Partition, int]:
    """Offset to begin at in each partition."""
    if start == "end":
        return {(topic, each.partition): each.next_offset for each in extents}
    # The embedded broker cannot find offsets by time: all is read, and the older left out.
    if start == "beginning" or connection.embedded:
        return {(topic, each.partition): each.first_offset for each in extents}
    # Below 0 brokers take some numbers for other questions, and refuse all others.
    since = offsets_since(connection, topic, len(extents), max(0, start))
    return {
        (topic, each.partition): max(each.first_offset, first if first >= 0 else each.next_offset)
        for each, first in zip(extents, since, strict=True)
    }


def as_json(entry: Entry, state: Callable[[Entry], str] | None = None) -> str:
    """The record with its place as one JSON object; a value that is no message as base64.

    `state` says the outcome of a record; none: nothing is known of it.
    """
    whole: dict[str, Any] = {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp_ms": entry.timestamp_ms,
        "key": None if entry.key is None else entry.key.decode(errors="replace"),
    }
    if state is not None:
        whole["state"] = state(entry)
    if isinstance(entry.message, Refusal):
        value = None if entry.value is None else b64encode(entry.value).decode()
        whole |= {"refused": entry.message.reason, "value_base64": value}
    else:
        try:
            # As it was written, with the fields that this version does not know.
            whole["value"] = orjson.loads(entry.value or b"")
        except orjson.JSONDecodeError:
            # Such a field holds NaN, which is read here and is no JSON.
            whole["value"] = entry.message.payload()
    return orjson.dumps(whole).decode()


_KEYS_WITH_CLUSTER = ("cluster", "cluster/node", "source topic")


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters of records; without any filter all records are taken."""

    cluster: str | None = None
    pod: tuple[str, str] | None = None
    """Namespace and name."""
    kind: str | None = None
    """The field `kind` of messages."""

    @classmethod
    def of(
        cls,
        topic: Topic,
        cluster: str | None,
        pod: tuple[str, str] | None,
        kind: str | None = None,
    ) -> "Selection":
        """Raises ValueError with a sentence if records of the topic are about no such thing."""
        if cluster is not None and topic.key not in _KEYS_WITH_CLUSTER:
            raise ValueError(
                f"--cluster: records of {topic.name} are about no single cluster (their key is the "
                f"{topic.key})"
            )
        if pod is not None and not any(
            "pod" in each.model_fields or "pods" in each.model_fields for each in topic.classes
        ):
            raise ValueError(f"--pod: records of {topic.name} are about no pod")
        fields = (each.model_fields.get("kind") for each in topic.classes)
        kinds = [field.default for field in fields if field is not None]
        if kind is not None and kind not in kinds:
            allowed = f"allowed are {', '.join(kinds)}" if kinds else "its records have no kind"
            raise ValueError(f"--kind: found {kind!r} for {topic.name}; {allowed}")
        return cls(cluster, pod, kind)

    @property
    def chooses(self) -> bool:
        """Whether anything is left out."""
        return self != Selection()

    def takes(self, entry: Entry) -> bool:
        """Whether a record is wanted."""
        if self.cluster is not None and entry.cluster != self.cluster:
            return False
        if self.kind is not None and getattr(entry.message, "kind", None) != self.kind:
            return False
        if self.pod is None:
            return True
        one = getattr(entry.message, "pod", None)
        pods = (*getattr(entry.message, "pods", ()), *([] if one is None else [one]))
        return any((pod.namespace, pod.name) == self.pod for pod in pods)
