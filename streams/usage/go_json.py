"""Decodes JSON in annotations of Koordinator as Go does.

Go ignores the case of field names, merges the values of a repeated name, and accepts no NaN. So an object is
decoded to pairs of name and value, in their order.
"""

import json
from typing import Any, NoReturn

from schemas.base.message import INT64_MAX


def decode(text: str) -> Any:
    """Decode a JSON text, with objects as tuples of pairs.

    Raises:
        ValueError: the text is not JSON, or Go does not accept it.
        RecursionError: the text is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=tuple, parse_constant=_refuse)


def read_fields(value: Any) -> list[tuple[str, Any]]:
    """Return the lower-case names and the values of a decoded object in their order; null is empty.

    Raises:
        ValueError: the value is not an object.
    """
    if value is None:
        return []
    if not isinstance(value, tuple):
        raise ValueError("not an object")  # noqa: TRY004 - one error for all bad JSON
    return [(name.casefold(), item) for name, item in value]


def read_integers(value: Any, before: dict[str, int] | None = None) -> dict[str, int]:
    """Return a decoded object as a map of int64, in which null is 0.

    Args:
        value: the object; null empties the map.
        before: earlier content of the map, into which the object is merged.

    Raises:
        ValueError: the value is not a map of integers.
    """
    if value is None:
        return {}
    if not isinstance(value, tuple):
        raise ValueError("not an object")  # noqa: TRY004 - one error for all bad JSON
    integers = dict(before or {})
    for key, item in value:
        number = 0 if item is None else item
        if type(number) is not int or not -INT64_MAX - 1 <= number <= INT64_MAX:
            raise ValueError(f"{key}: not a 64-bit integer")
        integers[key] = number
    return integers


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
