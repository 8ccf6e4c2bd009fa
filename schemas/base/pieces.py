"""Split content that is longer than a record may be.

Journal records, changelog rows, checkpoints and dead letters number their pieces in their own heads
or keys.
"""

from typing import AnyStr


def split_pieces(content: AnyStr, size: int) -> list[AnyStr]:
    """Return pieces of at most `size`, in order; one empty piece for empty content."""
    return [content[begin : begin + size] for begin in range(0, len(content), size)] or [content]
