"""Interned columns have the values of a plain list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streams.placement.columns import InternedColumn

VALUES = st.sampled_from(("", "a", "b", "c"))
#: A row (taken modulo their number) and its value, or how rows move.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 9), VALUES),
        st.lists(st.integers(-1, 9), max_size=6),
    ),
    max_size=20,
)


@given(st.lists(VALUES, max_size=4), STEPS, st.sets(VALUES))
def test_an_interned_column_has_the_values_of_a_plain_list(
    start: list[str], steps: list[tuple[int, str] | list[int]], some: set[str]
) -> None:
    plain = start
    column = InternedColumn("", plain)
    for step in steps:
        if isinstance(step, list):
            # Rows may vanish, appear and swap; none may become two.
            source = list(dict.fromkeys(i for i in step if 0 <= i < len(plain)))
            source += [-1] * step.count(-1)
            plain = [plain[i] if i >= 0 else "" for i in source]
            column.relayout(np.array(source, dtype=np.int64))
        elif plain:
            row = step[0] % len(plain)
            plain = [*plain[:row], step[1], *plain[row + 1 :]]
            column.put(row, step[1])
        assert [column.get(row) for row in range(len(plain))] == plain
        assert len(column) == len(set(plain))
        assert all((value in column) == (value in plain) for value in ("", "a", "b", "c"))
        assert column.mask_values(some).tolist() == [value in some for value in plain]
        mask = column.mask_passing(lambda value: value in some)
        assert (mask is None) == set(plain).issubset(some)
        if mask is not None:
            assert mask.tolist() == [value in some for value in plain]
