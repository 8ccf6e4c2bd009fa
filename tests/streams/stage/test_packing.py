import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.stage.packing import Changes
from streams.stage.records import DamagedTable, RowChange


def item(uid: str, arrival: int = 0) -> bytes:
    """A pod as the journal has it."""
    return orjson.dumps({"arrival": arrival, "pod": {"uid": uid}})


def uids(row: bytes | None) -> list[str]:
    """Pods of a packed row, in its order."""
    return [] if row is None else [pod["pod"]["uid"] for pod in orjson.loads(row)["pods"]]


def written(changes: Changes, before: dict[str, bytes]) -> dict[str, bytes]:
    """Rows of the tables after the changes are written."""
    after = dict(before)
    for row in changes.pack_rows(before.get):
        if row.value is None:
            after.pop(row.key, None)
        else:
            after[row.key] = row.value
    return after


def test_a_row_is_packed_once_however_often_its_items_have_changed() -> None:
    changes = Changes()
    changes.add("0/c/nodes/n", b"1")
    for index, uid in enumerate(("a", "b", "a")):
        changes.add(f"0/c/reserved_pods/n/{uid}", item(uid, index))
    changes.add("0/c/nodes/n", None)
    assert len(changes) == 2
    first, second = changes.pack_rows(lambda *_: None)
    assert first == RowChange("0/c/nodes/n", None)
    assert (second.key, uids(second.value)) == ("0/c/reserved_pods/n", ["b", "a"])
    assert {**orjson.loads(second.value or b""), "pods": []} == {
        "cluster": "c",
        "node": "n",
        "pods": [],
        "schema_version": 1,
    }


def test_a_packed_row_that_cannot_be_read_is_an_error() -> None:
    changes = Changes()
    changes.add("0/c/reserved_pods/n/a", item("a"))
    with pytest.raises(DamagedTable, match="row 0/c/reserved_pods/n"):
        list(changes.pack_rows(lambda *_: b'{"pods": 7}'))


steps = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from("pqr"), st.booleans()), max_size=20
)


@given(steps, st.integers(0, 20), st.integers(0, 20))
def test_repeating_changes_gives_the_same_row(
    history: list[tuple[str, str, bool]], first: int, second: int
) -> None:
    """After a crash some rows are newer than the position from which the stage redoes changes."""

    def done(some: list[tuple[int, tuple[str, str, bool]]]) -> Changes:
        changes = Changes()
        for index, (node, uid, present) in some:
            changes.add(f"0/c/reserved_pods/{node}/{uid}", item(uid, index) if present else None)
        return changes

    numbered = list(enumerate(history))
    start, middle = sorted((first, second))
    once = written(done(numbered), {})
    ahead = written(done(numbered[:middle]), {})
    assert written(done(numbered[start:]), ahead) == once
