"""Records of a topic as they come, read without a consumer group: nobody's position moves.

A bounded read ends at what was newest when it began; following goes on. The order holds within a
partition, and so within a cluster. Records that are gone are told as a `Gap`, never skipped over: the
embedded broker drops the oldest after about 5 MB a partition, a real one by its retention.
"""

import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import orjson

from connectors.kafka.admin import Extent, find_topics, read_extents
from connectors.kafka.client import BrokerUnavailable, Connection, Failures, client_options
from connectors.kafka.units import duration_ms
from schemas.codec import decode
from schemas.deadletters import DeadLetter, cluster_of
from schemas.refusals import Refusal
from schemas.topics import Topic

#: Where reading begins: a time is in milliseconds since 1970 and means the timestamps of records.
Start = Literal["beginning", "end"] | int

_POLL_S = 0.25
_RECORDS_PER_POLL = 1000


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
    """The message, or a Refusal where the record holds none."""

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


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that were deleted before they could be read."""

    topic: str
    partition: int
    first_offset: int
    """First one that is missing."""
    next_offset: int
    """First one that is there again."""

    def __str__(self) -> str:
        return (
            f"{self.topic} partition {self.partition}: the records {self.first_offset} to "
            f"{self.next_offset - 1} are gone, deleted by the broker"
        )


def parse_start(text: str, now_ms: int) -> Start:
    """`beginning`, `end`, a length of time before now (`15m`), ISO 8601 (UTC unless said), epoch ms.

    Raises ValueError with a sentence where it is none of these.
    """
    if text in ("beginning", "end"):
        return text  # type: ignore[return-value]  # mypy keeps `str`
    if (ago_ms := duration_ms(text)) is not None:
        return now_ms - ago_ms
    if text.isascii() and text.isdecimal() and len(text) == 13:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"found {text!r}; expected beginning, end, a time ago such as 15m or 2h, a time such as "
            "2026-11-20T14:00:00Z (UTC unless said otherwise), or milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def read_entries(
    connection: Connection, topic: Topic, start: Start, *, follow: bool, last: int | None = None
) -> Iterator[Entry | Gap]:
    """Records from `start` to the end as it is now, or on and on; at most `last` of a partition.

    Raises BrokerUnavailable where the topic does not exist, or where no broker answers for
    `connect_timeout_s` while something is to be read.
    """
    found = find_topics(connection, [topic.name])
    if not found:
        raise BrokerUnavailable(
            f"topic {topic.name} does not exist at {','.join(connection.settings.servers())}; make "
            "all topics with `loadstream topics create`"
        )
    extents = read_extents(connection, found.values())[topic.name]
    if last is not None:
        extents = tuple(
            replace(each, first_offset=max(each.first_offset, each.next_offset - last))
            for each in extents
        )
    reader = _Reader(connection, topic, start, extents, gaps=last is None)
    try:
        yield from reader.read(follow=follow)
    finally:
        reader.close()


class _Reader:
    """A consumer on all partitions of a topic."""

    def __init__(
        self,
        connection: Connection,
        topic: Topic,
        start: Start,
        extents: tuple[Extent, ...],
        *,
        gaps: bool = True,
    ) -> None:
        """`gaps`: records that are gone before the first one matter."""
        from confluent_kafka import Consumer

        self._connection = connection
        self._topic = topic
        self._start = start
        self._extents = extents
        self._ends = {e.partition: e.next_offset for e in extents}
        self._gaps = gaps
        self._since_ms = start if isinstance(start, int) else 0
        self._failures = Failures()
        self._consumer = Consumer(
            client_options(
                connection.settings,
                self._failures,
                **{
                    # librdkafka wants a group; without commits and subscriptions it is never joined.
                    "group.id": "loadstream-tail",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",
                    "enable.partition.eof": True,
                },
            )
        )
        self._next = self._first_offsets()
        """Offset that comes next, by partition."""

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()

    def read(self, *, follow: bool) -> Iterator[Entry | Gap]:
        """Records in the order in which they arrive."""
        yield from self._gaps_before()
        unfinished = {p for p, offset in self._next.items() if follow or offset < self._ends[p]}
        self._assign(unfinished)
        heard = time.monotonic()
        while unfinished:
            messages = self._consumer.consume(_RECORDS_PER_POLL, timeout=_POLL_S)
            if messages:
                heard = time.monotonic()
            elif self._failures.texts or not follow:
                self._check(silent_s=time.monotonic() - heard, follow=follow)
            for message in messages:
                if message.error() is not None:
                    yield from self._heal(message)
                elif follow or message.offset() < self._ends[message.partition()]:
                    self._next[message.partition()] = message.offset() + 1
                    if message.timestamp()[1] >= self._since_ms:
                        yield self._entry(message)
                if not follow and self._finished(message):
                    unfinished.discard(message.partition())

    def _gaps_before(self) -> Iterator[Gap]:
        """Who reads from the beginning means record 0; what is gone before the first one is told."""
        for extent in self._extents:
            if (
                self._gaps
                and self._start != "end"
                and self._next[extent.partition] == extent.first_offset > 0
            ):
                yield Gap(self._topic.name, extent.partition, 0, extent.first_offset)

    def _finished(self, message: Any) -> bool:
        """Whether a bounded read has all of this record's partition."""
        if message.error() is not None:
            return bool(message.error().name() == "_PARTITION_EOF")
        return self._next[message.partition()] >= self._ends[message.partition()]

    def _first_offsets(self) -> dict[int, int]:
        if self._start == "end":
            return dict(self._ends)
        # The embedded broker cannot find offsets by time: everything is read, and the older left out.
        if self._start == "beginning" or self._connection.embedded:
            return {e.partition: e.first_offset for e in self._extents}
        at = self._offsets_at(self._since_ms)
        return {e.partition: max(e.first_offset, at[e.partition]) for e in self._extents}

    def _offsets_at(self, since_ms: int) -> dict[int, int]:
        from confluent_kafka import KafkaException, TopicPartition

        wanted = [TopicPartition(self._topic.name, e.partition, since_ms) for e in self._extents]
        timeout_s = self._connection.settings.connect_timeout_s
        try:
            answers = self._consumer.offsets_for_times(wanted, timeout=timeout_s)
        except KafkaException as error:
            raise BrokerUnavailable(
                f"{self._topic.name}: the offsets at {since_ms} ms were not told within "
                f"{timeout_s:.0f} s: {error.args[0].str()}"
            ) from None
        # A negative offset stands for "no record so new".
        return {
            a.partition: a.offset if a.offset >= 0 else self._ends[a.partition] for a in answers
        }

    def _assign(self, partitions: set[int]) -> None:
        from confluent_kafka import TopicPartition

        self._consumer.assign(
            [TopicPartition(self._topic.name, p, self._next[p]) for p in sorted(partitions)]
        )

    def _heal(self, message: Any) -> Iterator[Gap]:
        """The end of a partition is no trouble; behind a hole in it reading goes on."""
        from confluent_kafka import TopicPartition

        if message.error().name() == "_PARTITION_EOF":
            return
        if message.error().name() != "_AUTO_OFFSET_RESET":
            raise BrokerUnavailable(f"{self._topic.name}: {message.error().str()}")
        partition = message.partition()
        found = find_topics(self._connection, [self._topic.name])
        extent = read_extents(self._connection, found.values())[self._topic.name][partition]
        yield Gap(self._topic.name, partition, self._next[partition], extent.first_offset)
        self._next[partition] = extent.first_offset
        # A partition in error cannot be told another position, but it can be given anew.
        behind = TopicPartition(self._topic.name, partition, extent.first_offset)
        self._consumer.incremental_unassign([behind])
        self._consumer.incremental_assign([behind])

    def _check(self, *, silent_s: float, follow: bool) -> None:
        """Nothing came: is there nothing, or nobody? Raises BrokerUnavailable for the latter."""
        from confluent_kafka import KafkaException

        limit_s = self._connection.settings.connect_timeout_s
        try:
            self._consumer.list_topics(self._topic.name, timeout=limit_s)
        except KafkaException:
            reachable = False
        else:
            reachable = True
            self._failures.texts.clear()
        # A bounded read has something to come, so silence alone is trouble as well.
        patience_s = limit_s if not reachable else 3 * limit_s
        if silent_s > patience_s and not (reachable and follow):
            raise BrokerUnavailable(self._failures.explain(self._connection.settings, silent_s))

    def _entry(self, message: Any) -> Entry:
        return Entry(
            topic=self._topic.name,
            partition=message.partition(),
            offset=message.offset(),
            timestamp_ms=message.timestamp()[1],
            key=message.key(),
            value=message.value(),
            message=decode(self._topic.name, message.value()),
        )


def as_json(entry: Entry) -> str:
    """The record with its place as one JSON object; a value that is no message as base64."""
    whole: dict[str, Any] = {
        "topic": entry.topic,
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp_ms": entry.timestamp_ms,
        "key": None if entry.key is None else entry.key.decode(errors="replace"),
    }
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
