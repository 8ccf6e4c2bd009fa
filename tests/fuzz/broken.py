"""What producers must not send and what strangers do: bytes that were a valid record once.

A record is broken in its bytes, in one value of its JSON, or in its place (key, topic). Not every
result is invalid: what still can be read is a borderline case, and readers must cope.
"""

import json
from random import Random
from typing import Any

import orjson

from tests.strategies import places_in

#: Values that stand where others are expected.
_ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    10**30,
    0.5,
    1e308,
    946_684_800_000,
    4_102_444_800_000,
    "",
    "0",
    "-1",
    "9223372036854775807",
    "9223372036854775807Ei",
    "1e400",
    "\x00",
    "\ud7ff\uffff",
    '"' * 40,
    "\\" * 40,
    "\u202e\u0085\x9b31m",
    "x" * 254,
    "ü" * 513,
    [],
    {},
    [[]],
    {"": None},
    ["x"] * 300,
)
_BYTES = (
    b"",
    b"{",
    b"[" * 5_000,
    b'{"a":' * 300,
    b"null",
    b"1",
    b'"\xff\xfe"',
    b"\xef\xbb\xbf{}",
    b'{"schema_version": 2}',
    b'{"schema_version": true}',
    b'{"cluster": "\\ud800"}',
    b'{"kind": "list-begin", "kind": "list-end"}',
    b"\x00" * 64,
    b"\x00\x00\x00\x00\x01avro",
    b"PK\x03\x04" + b"\x00" * 26,
)


def broken(random: Random, value: bytes) -> bytes | None:
    """Another value in place of this one."""
    how = random.random()
    if how < 0.6:
        return _other_json(random, value)
    if how < 0.85:
        return _other_bytes(random, value)
    if how < 0.9:
        return None
    return random.choice(_BYTES)


def misplaced_key(random: Random, key: bytes | None) -> bytes | None:
    """A key that a producer has got wrong."""
    odd = (None, b"", b"\xff\xfe", b"other", b"0", b"k" * 2_049, (key or b"") + b"/", b"a/b/c")
    return random.choice(odd)


def _other_bytes(random: Random, value: bytes) -> bytes:
    at, other = random.randint(0, len(value)), random.randint(0, len(value))
    begin, end = min(at, other), max(at, other)
    match random.randint(0, 5):
        case 0:
            return value[:at]
        case 1:
            return value[:begin] + value[end:]
        case 2:
            return value[:end] + value[begin:]
        case 3:
            return value[:at] + random.randbytes(random.randint(1, 4)) + value[at + 1 :]
        case 4:  # the last of two names holds
            return value.replace(b"{", b'{"cluster":"twice","node":"twice",', 1)
    return value + b" " * random.choice((1, 10_000)) + random.choice((b"", b"{}"))


def _other_json(random: Random, value: bytes) -> bytes:
    try:
        payload = orjson.loads(value)
    except ValueError:
        return _other_bytes(random, value)
    places = list(places_in(payload))
    if not places:
        return json.dumps(random.choice(_ODD)).encode()
    *above, last = random.choice(places)
    target = payload
    for step in above:
        target = target[step]
    how = random.random()
    if how < 0.6:
        target[last] = random.choice(_ODD)
    elif how < 0.8:
        del target[last]
    elif isinstance(target, dict):
        target[random.choice(("", "x", "cluster", "node", "list_id"))] = target.pop(last)
    else:
        target.extend([target[last]] * random.choice((1, 2, 300)))
    return json.dumps(payload).encode()
