"""Delete the state of both stages for a partition, so that a worker can start from its inputs again.

    changelogs              a tombstone for every key: they are compacted, so records cannot be deleted
    journal, checkpoints    all records are deleted
    positions               inputs continue at their ends, `policies` at its beginning

A worker cannot start from an incomplete reset: an early step deletes the journal position, and the
last step writes the new one. In between, a worker reports a damaged partition. If a step fails, run the
command again.

The opening record in the journal tells a suspended worker that it has lost the partition. A clock tick
with `state_lost` tells watches to send full lists of their clusters again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from connectors.kafka.admin import find_topics, read_groups
from connectors.kafka.client import BrokerUnavailable, Connection
from connectors.kafka.extents import Extent, check_partitions, read_extents
from connectors.kafka.producer import OutgoingRecord, Sender
from connectors.kafka.reader import read_range
from connectors.kafka.topics import changelog_name, expected_names
from connectors.process import wall_clock
from connectors.queries.cluster_reading import WORKER_GROUPS
from schemas.messages.clock import ClockTick
from schemas.messages.journal import JournalRecord
from schemas.storage.percentiles import Progress
from schemas.storage.rows import JournalPositionRow, PartitionRow
from schemas.storage.tables import (
    CLUSTER_TABLES,
    PARTITION,
    POSITION,
    TABLE_OF_KIND,
    TABLES,
    WINDOWS,
    row_key,
)
from schemas.topics.catalog import CLUSTER_INPUTS, RecordPlace
from schemas.topics.codec import decode, encode

_JOURNAL, _CHECKPOINTS, _CLOCK = "journal", "checkpoints", "clock"
_USAGE = "node-usage"
#: Changelog with the rows of the partition itself.
_STATE_CHANGELOG = changelog_name(TABLE_OF_KIND[POSITION])
#: The input that is read again from its beginning: a compacted topic with all policies.
_READ_AGAIN = "policies"


class ResetRefused(RuntimeError):
    """Nothing was changed; the message has the reason and advice."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A planned reset of a partition."""

    partition: int
    extents: dict[str, Extent]
    """First and next offset of the partition, by topic."""

    @property
    def lines(self) -> list[str]:
        """Sentences that name the records to delete, and the offsets at which inputs continue."""
        at = {topic: extent.next_offset for topic, extent in self.extents.items()}
        rows = sum(self._count(changelog_name(table.name)) for table in TABLES)
        ends = ", ".join(f"{topic} {at[topic]}" for topic in (_USAGE, *_list_kept_inputs()))
        return [
            f"partition {self.partition} of both stages:",
            f"  deleted: the rows of {len(TABLES)} tables ({rows} records at most), "
            f"the journal ({self._count(_JOURNAL)} records), the checkpoints ({self._count(_CHECKPOINTS)} records)",
            f"  inputs continue at their ends; unread records are skipped: {ends}",
            f"  {_READ_AGAIN} is read from its beginning: {self._count(_READ_AGAIN)} records",
        ]

    def _count(self, topic: str) -> int:
        extent = self.extents[topic]
        return extent.next_offset - extent.first_offset


def plan_reset(connection: Connection, partition: int) -> Plan:
    """Return what a reset of this partition would do; change nothing.

    Raises:
        ResetRefused: workers run, the broker is the embedded one, or there is no such partition.
        BrokerUnavailable: a broker does not answer, or topics differ from the settings.
    """
    if connection.embedded:
        raise ResetRefused("the embedded broker keeps no data: restart it instead")
    check_partitions(connection, _JOURNAL)
    partitions = connection.settings.partitions
    if partition >= partitions:
        raise ResetRefused(f"found partition {partition}; expected 0 to {partitions - 1}")
    topics = find_topics(connection, expected_names())
    wrong_names = [name for name in expected_names() if name not in topics]
    wrong_names += [name for name, topic in topics.items() if topic.partitions != partitions]
    if wrong_names:
        raise ResetRefused(
            f"topics are missing or have another number of partitions: {', '.join(wrong_names)}. "
            "`loadstream topic create` creates missing topics"
        )
    members = _count_members(connection)
    if members:
        raise ResetRefused(
            f"stop all workers first: {members} are running, or were stopped just now"
        )
    extents = read_extents(connection, dict.fromkeys(topics, partitions))
    return Plan(partition, {topic: extents[topic][partition] for topic in extents})


def reset_partition(connection: Connection, plan: Plan) -> None:
    """Carry out a plan.

    Raises:
        BrokerUnavailable: a step failed; the reset must be run again.
    """
    partition, extents = plan.partition, plan.extents
    ends = {topic: extent.next_offset for topic, extent in extents.items()}
    _delete_records(
        connection, {topic: ends[topic] for topic in (_JOURNAL, _CHECKPOINTS)}, partition
    )
    with Sender(connection) as sender:
        write = partial(_write, sender, partition)
        opening = JournalRecord(partition=partition, epoch=0, sequence=0, opens=True)
        opened = write(_JOURNAL, [(str(partition).encode(), encode(opening))])
        position_key = row_key(partition, "", POSITION).encode()
        write(_STATE_CHANGELOG, [(position_key, None)])
        for table in CLUSTER_TABLES:
            topic = changelog_name(table)
            write(topic, ((key, None) for key in _list_keys(connection, topic, partition, extents)))
        _reset_windows(connection, sender, plan)
        tick = ClockTick(
            partition=partition, now_ms=_read_log_time(connection, plan), state_lost=True
        )
        ticked = write(_CLOCK, [(str(partition).encode(), encode(tick))])
        offsets = {topic: ends[topic] - 1 for topic in _list_kept_inputs() if ends[topic]}
        row = PartitionRow(partition=partition, offsets={**offsets, _CLOCK: ticked})
        write(_STATE_CHANGELOG, [(row_key(partition, "", PARTITION).encode(), encode(row))])
        position = JournalPositionRow(partition=partition, epoch=opened, sequence=0, offset=opened)
        write(_STATE_CHANGELOG, [(position_key, encode(position))])


def _reset_windows(connection: Connection, sender: Sender, plan: Plan) -> None:
    """Delete the rows of the aggregate stage, and set its progress to the end of its input.

    Deletes the old progress first, because a worker does not start from rows without progress.
    """
    topic, partition = changelog_name(WINDOWS), plan.partition
    position = plan.extents[_USAGE].next_offset - 1
    progress = Progress(epoch=0, position=position, samples_sequence=0, pods_sequence=0)
    progress_prefix = row_key(partition, "", "progress").encode()
    keys = _list_keys(connection, topic, partition, plan.extents)
    keys.sort(key=lambda key: not key.startswith(progress_prefix))
    new_key = row_key(partition, "", "progress", "0").encode()
    _write(sender, partition, topic, [*((key, None) for key in keys), (new_key, encode(progress))])


def _write(
    sender: Sender, partition: int, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]
) -> int:
    """Write records in order and wait for them; return the last offset, -1 without records."""
    positions = sender.deliver(
        OutgoingRecord(topic, value, RecordPlace(key or b"", partition, None))
        for key, value in records
    )
    return max((offset for _, offset in positions), default=-1)


def _list_kept_inputs() -> list[str]:
    """Return the inputs of the cluster stage that continue at their ends."""
    return [topic for topic in CLUSTER_INPUTS if topic != _READ_AGAIN]


def _list_keys(
    connection: Connection, topic: str, partition: int, extents: dict[str, Extent]
) -> list[bytes]:
    """Return the keys with a value, sorted."""
    has_value: dict[bytes, bool] = {}
    extent = extents[topic]
    for record in read_range(connection, topic, partition, extent.first_offset, extent.next_offset):
        has_value[record.key or b""] = record.value is not None
    return sorted(key for key, present in has_value.items() if present)


def _read_log_time(connection: Connection, plan: Plan) -> int:
    """Return the time of the partition's newest tick, so that the reset does not move log time."""
    extent = plan.extents[_CLOCK]
    start = max(extent.first_offset, extent.next_offset - 1)
    for record in read_range(connection, _CLOCK, plan.partition, start, extent.next_offset):
        tick = decode(_CLOCK, record.value)
        if isinstance(tick, ClockTick):
            return tick.now_ms
    return wall_clock.now_ms()


def _count_members(connection: Connection) -> str:
    """Return how many workers are members of each group, as text; empty if there are none."""
    counts = []
    for name, group in read_groups(connection, WORKER_GROUPS).items():
        if group.members is None:
            servers = ",".join(connection.settings.servers())
            raise BrokerUnavailable(f"{servers} did not describe group {name}: {group.reason}")
        if group.members:
            counts.append(f"{len(group.members)} members of group {name}")
    return ", ".join(counts)


def _delete_records(connection: Connection, ends: dict[str, int], partition: int) -> None:
    """Delete the records of the partition below an offset of each topic."""
    deletions: list[Any] = [TopicPartition(topic, partition, end) for topic, end in ends.items()]
    timeout_s = connection.settings.connect_timeout_s
    answers = connection.admin.delete_records(deletions, request_timeout=timeout_s)
    for partition_end, answer in answers.items():
        try:
            answer.result()
        except KafkaException as error:
            raise connection.refusal("delete the records of", partition_end.topic, error) from None
