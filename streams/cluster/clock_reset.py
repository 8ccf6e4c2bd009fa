"""Time that is set back: the rows of a state as they would be if it had never been so late.

A clock that was ahead affects everything that has a time: reservations that end in a year, rounds
that are due in a year. Ages and waits are differences between such times and now, so all times
change together, by one rule. With `was_ms` the time before and `now_ms` the time that is set:

    up to now_ms                   stays: it was written before the clock ran ahead
    after now_ms, up to was_ms     becomes now_ms: it has happened, or is due
    after was_ms                   becomes now_ms and the time that was left, a deadline that is to come

The rule never changes the order of two times. It is applied to rows, since rows are the state: the
stage is put together from them again, as after a restart. The rows are journaled like any other
change, so restart and replay give the same result. Durations, whose names look like those of times,
are below every possible time (`EPOCH_MS_MIN`), and stay. Pure: rows in, rows out.

Not undone: what was decided while the clock was ahead. Reservations that ended then have ended.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson
from pydantic import BaseModel

from streams.stage.packing import PACKED, packed_row
from streams.stage.records import RowChange

#: A number in JSON under a name of a time or a length of time.
_TIME = re.compile(rb'_ms":(\d+)')


def set_back(
    rows: Iterable[RowChange],
    classes: Mapping[str, type[BaseModel]],
    items: Mapping[str, type[BaseModel]],
    was_ms: int,
    now_ms: int,
) -> Iterator[RowChange]:
    """The rows as of an earlier time.

    Args:
        rows: of a state, as the journal has them.
        classes: class of a table's rows.
        items: class of what the journal has one by one of a packed table.
        was_ms: the time before.
        now_ms: the time that is set.
    """
    for row in rows:
        value = row.value
        if value is None or all(int(found) <= now_ms for found in _TIME.findall(value)):
            yield row
            continue
        single = row.table in PACKED and packed_row(row.table, row.key)[1] is not None
        message = (items if single else classes)[row.table].model_validate_json(value)
        yield RowChange(row.table, row.key, _encoded(_moved(message, was_ms, now_ms)))


def moved_rows(
    rows: Mapping[tuple[str, str], bytes],
    classes: Mapping[str, type[BaseModel]],
    was_ms: int,
    now_ms: int,
) -> Iterator[RowChange]:
    """Those of the stored rows, by table and key, that are others as of an earlier time."""
    before = [RowChange(table, key, value) for (table, key), value in rows.items()]
    after = set_back(before, classes, {}, was_ms, now_ms)
    return (new for old, new in zip(before, after, strict=True) if new is not old)


def moved_ms(at_ms: int, was_ms: int, now_ms: int) -> int:
    """A time as of an earlier now."""
    return min(at_ms, now_ms + max(0, at_ms - was_ms))


def _encoded(message: BaseModel) -> bytes:
    """A message with the fields that it was read with: items of packed rows leave some out."""
    given = message.model_dump(exclude_none=True, exclude_unset=True)
    return orjson.dumps(given, option=orjson.OPT_SORT_KEYS)


def _moved(value: Any, was_ms: int, now_ms: int) -> Any:
    """A message, or what one holds, with all its times moved."""
    if isinstance(value, BaseModel):
        changed = {}
        for name in type(value).model_fields:
            before = getattr(value, name)
            if name.endswith("_ms") and isinstance(before, int):
                after: Any = moved_ms(before, was_ms, now_ms)
            else:
                after = _moved(before, was_ms, now_ms)
            if after is not before:
                changed[name] = after
        return value.model_copy(update=changed) if changed else value
    if isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
        return tuple(_moved(each, was_ms, now_ms) for each in value)
    return value
