"""A column comes back from its text number by number, or a sentence says why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.aggregate.packed_column import BITS_MAX, packed, unpacked


@given(st.lists(st.integers(-1, 2**BITS_MAX - 2), max_size=40))
def test_no_number_changes(numbers: list[int]) -> None:
    assert unpacked(packed(numbers), len(numbers)) == numbers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (packed([7, 8, 9, 900]), "found 5 bytes of 10 bits a number; expected 4, for 3 numbers"),
        (packed([7, 900]), "found 3 bytes of 10 bits a number; expected 4, for 3 numbers"),
        ("", "found no byte; expected at least the one that says how many bits follow"),
        ("/wAA", "found 255 bits a number; expected 1 to 62"),
    ],
)
def test_a_column_of_another_length_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^found") as refused:
        unpacked(text, 3)
    assert str(refused.value) == said
