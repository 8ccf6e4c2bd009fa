"""Largest records that are read and written, and how longer content is split. The limits depend on
each other:

- An input value has at most VALUE_BYTES_MAX; a longer value becomes a dead letter.
- An output value has at most VALUE_BYTES_MAX, because its readers read no more.
- Records of the journal and of changelogs have at most PIECE_BYTES_MAX of content; longer content is
  split.
- Every topic accepts batches of BATCH_BYTES_MAX. Internal topics are read without a limit.

So loadstream can write everything that it applies, and read everything that it wrote.
"""

from typing import AnyStr

#: Longest value of an input and of an output; Kafka's own default limit is 1 MiB.
VALUE_BYTES_MAX = 4 * 1024 * 1024

#: Largest batch that a topic accepts and a producer sends: one value of the largest size, and the same
#: size for the rest of the batch.
BATCH_BYTES_MAX = 2 * VALUE_BYTES_MAX

#: Content per record of the journal or of a changelog. With head and key (`PIECE_HEAD_BYTES_MAX`)
#: such a record stays below 1 MB, the smallest of Kafka's default limits.
PIECE_BYTES_MAX = 700_000

#: Largest key and head of such a record.
PIECE_HEAD_BYTES_MAX = 16_384


def split_pieces(content: AnyStr, size: int) -> list[AnyStr]:
    """Return pieces of at most `size`, in order; one empty piece for empty content.

    Journal records, changelog rows, checkpoints and dead letters number their pieces in their own heads
    or keys.
    """
    return [content[begin : begin + size] for begin in range(0, len(content), size)] or [content]
