"""Content that is longer than one record may be, cut into pieces.

Journal records, rows of changelogs, checkpoints and dead letters each say in their own heads or keys
which piece of what they hold.
"""

from typing import AnyStr


def split(content: AnyStr, size: int) -> list[AnyStr]:
    """Pieces of at most this size, in their order; of empty content one empty piece."""
    return [content[begin : begin + size] for begin in range(0, len(content), size)] or [content]
