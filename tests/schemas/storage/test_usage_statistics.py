"""Rows of usage statistics with columns of different lengths are refused."""

from typing import Any

import orjson
import pytest

from schemas.base.refusals import Refusal
from schemas.storage.usage_statistics import PodUsageRow
from schemas.topics.codec import decode_as

_ROW: dict[str, Any] = {
    "cluster": "prod-eu1",
    "node": "node-0001",
    "extended_at_ms": 1_700_000_000_000,
    "uids": ["a", "b"],
    "minutes": [5, 10, 15],
    "usage": {
        "cpu": {"mean": [1, 2, 3], "deviation": [1, 2, 3]},
        "memory": {"mean": [4, 5, 6], "deviation": [0, 0, 0]},
    },
}
_LATELY = {"recent": [1, 2, 3], "recent_root": [1, 2, 3], "lasting_ppm": [1, 2, 3]}


def _row_with(**changed: Any) -> bytes:
    """Return the row with other columns of CPU, or with another field."""
    row = {**_ROW, **{name: value for name, value in changed.items() if name in _ROW}}
    columns = {name: value for name, value in changed.items() if name not in _ROW}
    usage = {**_ROW["usage"], "cpu": {**_ROW["usage"]["cpu"], **columns}}
    return orjson.dumps({**row, "usage": usage})


def test_a_row_has_an_entry_for_each_pod_and_one_for_the_system_part() -> None:
    assert isinstance(decode_as(PodUsageRow, _row_with()), PodUsageRow)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (_row_with(mean=[1, 2]), "mean of cpu has 2 entries; expected 3"),
        (_row_with(deviation=[]), "deviation of cpu has 0 entries; expected 3"),
        (
            _row_with(**{**_LATELY, "recent_root": [1]}),
            "recent_root of cpu has 1 entries; expected 3",
        ),
        (
            _row_with(minutes=[5]),
            "minutes has 1 entries for 2 pods; expected one per pod and at most one more for the "
            "system part",
        ),
        (
            _row_with(**_LATELY),
            "recent of memory has 0 entries; expected 3",
        ),
    ],
)
def test_a_row_with_uneven_columns_is_refused_with_both_lengths(value: bytes, reason: str) -> None:
    assert decode_as(PodUsageRow, value) == Refusal("invalid", reason)
