"""`journal`: what was applied to a partition's state, in which order, and what it changed.

One batch: the runs of input offsets in the order applied, the rows that changed, the outputs, the
writer's epoch. Folding the recorded inputs in the recorded order gives the same state and outputs.

A batch is cut into as many records as it takes, anywhere:

    content   the `BatchIndex` as a line of JSON, a line break, then the bytes of all rows and outputs that it
              names, in its order and with nothing in between
    record    the `JournalRecord` as a line of JSON, a line break, then the content or a part of it

Values are kept as the bytes that they are, neither quoted nor escaped, and no batch is too large.
The record that opens an epoch has no content.
"""

from itertools import accumulate, pairwise
from typing import Annotated

from pydantic import Field

from schemas.base.message import INT64_MAX, Count, Counts, EpochMs, Message, Part, StateMs


class InputRun(Part):
    """Consecutive offsets of one topic, applied one after the other."""

    topic: str
    """Name of the topic."""
    first_offset: Count
    """Offset of the first record of the run."""
    last_offset: Count
    """Offset of the last record of the run, which belongs to it."""
    refused_at_ms: EpochMs | None = None
    """Of `clock`: the time of the worker when it refused these ticks, as too far from that time.
    None: it did not."""


class JournalRecord(Message):
    """The beginning of an epoch, or the head of an applied batch or of a part of one (key:
    partition)."""

    partition: Count
    """Partition whose state it is; also the partition of this record."""
    opens: bool = False
    """A new writer takes the partition over; its epoch is the offset of this record."""
    epoch: Count
    """Epoch of the writer. After an opening record, batches of other epochs than its own are of a
    writer that has lost the partition; readers ignore them."""
    sequence: Count
    """Number of the batch, without gaps."""
    part: Count = 0
    """Which of `parts` this is, from 0."""
    parts: Annotated[int, Field(ge=1, le=INT64_MAX)] = 1
    """How many records the content is cut into; a batch holds only when complete."""
    applied: Count = 0
    """How many input records the batch has applied."""
    rows: Count = 0
    """How many rows it has changed."""
    outputs: Count = 0
    """How many records it emits."""
    positions: Counts = Field(default_factory=dict)
    """Offset applied last of each input topic once the batch is applied."""


class BatchIndex(Part):
    """What a batch holds, in the order in which the bytes follow."""

    inputs: Annotated[tuple[InputRun, ...], Field(fail_fast=True)] = ()
    """What was applied, in the order applied."""
    rows: Annotated[tuple[tuple[str, Count | None], ...], Field(fail_fast=True)] = ()
    """The rows that changed: key, length in bytes; no length: the row is gone.

    Of kind `reserved_pods`, whose rows hold all pods of a node, a change is of one pod: a
    `HeldPod` under the row's key with a slash and the pod's uid after it."""
    outputs: Annotated[
        tuple[tuple[str, str, StateMs | None, Count], ...], Field(fail_fast=True)
    ] = ()
    """What it emits: topic, key, timestamp that the record is written with, length in bytes."""


def cut(content: bytes) -> tuple[BatchIndex, list[bytes], list[bytes]]:
    """The index of a whole batch, the values of its rows, and those of its outputs.

    Raises:
        ValueError: the content is not what its index says.
    """
    line, _, values = content.partition(b"\n")
    index = BatchIndex.model_validate_json(line)
    lengths = [row[1] or 0 for row in index.rows] + [output[3] for output in index.outputs]
    ends = list(accumulate(lengths, initial=0))
    if ends[-1] != len(values):
        raise ValueError(f"it has {len(values)} bytes of values; its index names {ends[-1]}")
    found = [values[begin:end] for begin, end in pairwise(ends)]
    return index, found[: len(index.rows)], found[len(index.rows) :]
