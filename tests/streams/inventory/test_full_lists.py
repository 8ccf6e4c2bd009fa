"""Full lists: which list a record belongs to, and which objects a list lacks."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.lists import ListBegin, ListEnd
from streams.inventory.full_lists import FullLists

_PODS = "pod-lifecycle"


def _begin(list_id: str) -> ListBegin:
    return ListBegin(cluster="blue", list_id=list_id)


def _end(list_id: str) -> ListEnd:
    return ListEnd(cluster="blue", list_id=list_id)


def test_a_list_ends_once_and_only_by_its_own_id() -> None:
    lists = FullLists()
    lists.begin(_PODS, _begin("a"), 7)
    assert lists.end(_PODS, _end("b")) is None
    assert lists.end("node-state", _end("a")) is None
    assert lists.end(_PODS, _end("a")) == ("a", 7)
    assert lists.end(_PODS, _end("a")) is None


def test_records_after_a_list_carry_its_id_until_the_next_list() -> None:
    lists = FullLists()
    lists.begin(_PODS, _begin("a"), 1)
    assert lists.resolve_id(_PODS, None) is None
    lists.end(_PODS, _end("a"))
    assert lists.resolve_id(_PODS, None) == "a"
    assert lists.resolve_id(_PODS, "b") == "b"
    assert lists.resolve_id("node-state", None) is None
    lists.begin(_PODS, _begin("c"), 2)
    assert lists.resolve_id(_PODS, None) is None


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"))))
def test_only_the_list_that_began_last_can_end(steps: list[tuple[bool, str]]) -> None:
    lists, newest = FullLists(), None
    for number, (begins, list_id) in enumerate(steps):
        if begins:
            lists.begin(_PODS, _begin(list_id), number)
            newest = (list_id, number)
        else:
            expected = newest if newest is not None and newest[0] == list_id else None
            assert lists.end(_PODS, _end(list_id)) == expected
            newest = None if expected else newest
