"""A column of numbers as text: all of them with as many bits as the largest needs.

Numbers of thirteen digits, which means and deviations of memory are, take half as many bytes as in
decimal, and none of their digits is lost.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence

import numpy as np

#: Bits of what is packed: numbers from -1 to 2^62 - 2.
BITS_MAX = 62


def packed(numbers: Sequence[int]) -> str:
    """Numbers from -1 on as base64: a byte that says how many bits each has, then one more than
    each of them, the highest bit first, without gaps."""
    column = np.array(numbers, dtype=np.int64) + 1
    bits = max(1, int(column.max(initial=0)).bit_length())
    if bits > BITS_MAX or int(column.min(initial=0)) < 0:
        raise ValueError(
            f"found numbers from {min(numbers)} to {max(numbers)}; expected -1 to 2^{BITS_MAX} - 2"
        )
    lines = np.unpackbits(column.astype(">u8").view(np.uint8).reshape(-1, 8), axis=1)
    return b64encode(bytes((bits,)) + np.packbits(lines[:, 64 - bits :]).tobytes()).decode()


def unpacked(text: str, count: int) -> list[int]:
    """The numbers of a column that has `count` of them; raises ValueError with a sentence."""
    content = b64decode(text, validate=True)
    if not content:
        raise ValueError("found no byte; expected at least the one that says how many bits follow")
    if not 1 <= content[0] <= BITS_MAX:
        raise ValueError(f"found {content[0]} bits a number; expected 1 to {BITS_MAX}")
    bits, length = content[0], len(content) - 1
    expected = -(-bits * count // 8)
    if length != expected:
        raise ValueError(
            f"found {length} bytes of {bits} bits a number; expected {expected}, for {count} numbers"
        )
    lines = np.zeros((count, 64), dtype=np.uint8)
    read = np.unpackbits(np.frombuffer(content, np.uint8, offset=1), count=bits * count)
    lines[:, 64 - bits :] = read.reshape(count, bits)
    column = np.packbits(lines, axis=1).view(">u8").ravel().astype(np.int64) - 1
    return column.tolist()
