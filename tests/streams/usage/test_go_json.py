from typing import Any

import pytest

from streams.usage.go_json import decode, read_integers


@pytest.mark.parametrize(
    ("text", "integers"),
    [
        ("{}", {}),
        ("null", {}),
        ('{"cpu": 85}', {"cpu": 85}),
        ('{"cpu": null}', {"cpu": 0}),
        ('{"cpu": -5, "memory": 0}', {"cpu": -5, "memory": 0}),
        ('{"cpu": 9223372036854775807}', {"cpu": 2**63 - 1}),
        ('{"cpu": -9223372036854775808}', {"cpu": -(2**63)}),
        ('{"cpu": 1, "cpu": 2}', {"cpu": 2}),
        ('{"cpu": 9223372036854775808}', None),
        ('{"cpu": 85.0}', None),
        ('{"cpu": 1e2}', None),
        ('{"cpu": NaN}', None),
        ('{"cpu": "85"}', None),
        ('{"cpu": true}', None),
        ('{"cpu": [85]}', None),
        ('{"cpu": 85, "memory": {}}', None),
        ("[]", None),
        ("85", None),
        ('"cpu"', None),
        ("false", None),
    ],
)
def test_a_map_of_integers_is_read_as_go_reads_it(text: str, integers: Any) -> None:
    if integers is None:
        with pytest.raises(ValueError, match=r"object|64-bit|NaN"):
            read_integers(decode(text))
    else:
        assert read_integers(decode(text)) == integers
