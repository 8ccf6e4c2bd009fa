from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.pods import Pod
from schemas.policy import Policy
from schemas.storage.rows import HeldPod
from schemas.topics.codec import encode
from streams.cluster import inventory_rows
from streams.cluster.inventory_rows import PARTS_BYTES_MAX, PodRows, encode_held
from streams.inventory.inventory import Inventory
from streams.inventory.pod_events import observe
from streams.placement.reservations import Reservations
from streams.pods.demand import pod_demand
from streams.pods.held import Held
from streams.stage.sized_cache import SizedCache
from streams.usage.assigned_pods import AssignedPod
from tests.streams.cluster.builders import START_MS, lifecycle, pod
from tests.streams.cluster.strategies import pods

NODES = ("a", "b")
UIDS = tuple(f"pod-{number}" for number in range(4))


def plain(held: Held, counted: AssignedPod | None) -> bytes:
    """The item put together as a message, from nothing but the state."""
    labels = counted.pod.labels if counted else held.pod.labels
    annotations = counted.pod.annotations if counted else held.pod.annotations
    item = HeldPod(
        pod=held.pod,
        counted_labels=None if labels == held.pod.labels else labels,
        counted_annotations=None if annotations == held.pod.annotations else annotations,
        counted_at_ms=counted.cached_at_ms if counted else None,
        assigned_at_ms=held.assigned_at_ms,
        decision_id=held.decision_id,
        expires_at_ms=held.expires_at_ms,
        requested_at_ms=held.requested_at_ms,
        attempt=held.attempt,
        sequence=held.sequence,
        list_id=held.list_id,
        place=held.place,
    )
    return encode(item)


@contextmanager
def _kept_parts(most: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inventory_rows, "_PARTS", SizedCache(PARTS_BYTES_MAX, most))
        yield


def change(inventory: Inventory, what: str, node: str, uid: str, moment: int) -> None:
    """One of the things that happen to a held pod."""
    inventory.advance(START_MS + moment)
    inventory.numbers.sequence += 1
    if what == "reserve":
        inventory.release(uid)
        held = Held(pod(uid), pod_demand(pod(uid)), START_MS + moment, "decision-1", START_MS)
        inventory.hold(node, held, first_seen=True)
    elif what == "confirm":
        inventory.confirm(uid)
    elif what == "release":
        inventory.release(uid)
    elif what == "relabel":
        labelled = pod(uid, labels={"said": str(moment), "where": "Zürich ☃"})
        observe(inventory, lifecycle("changed", labelled, node))
    elif what == "resize":
        observe(inventory, lifecycle("changed", pod(uid, cpu=str(1 + moment)), node))
    elif what == "policy":
        inventory.set_policy(Policy(max_backoff_seconds=1 + moment))


changes = st.lists(
    st.tuples(
        st.sampled_from(("reserve", "confirm", "release", "relabel", "resize", "policy", "encode")),
        st.sampled_from(NODES),
        st.sampled_from(UIDS),
    ),
    max_size=30,
)


@given(changes, st.sampled_from((1, 2, 1_000)))
def test_an_item_is_that_of_its_message_whatever_was_kept_of_earlier_ones(
    steps: list[tuple[str, str, str]], kept_max: int
) -> None:
    inventory = Inventory(Policy())
    rows = PodRows(inventory, Reservations(inventory))
    with _kept_parts(kept_max):
        for moment, (what, name, uid) in enumerate([*steps, *(("encode", n, "") for n in NODES)]):
            if what != "encode":
                change(inventory, what, name, uid, moment)
            elif (node := inventory.nodes.get(name)) is not None:
                for held_uid, held in node.held.items():
                    counted = node.usage.assigned.get(held_uid)
                    assert rows.encode((name, held_uid)) == plain(held, counted)


@given(pods(), st.sampled_from((1, 1_000)))
def test_every_pod_is_encoded_as_its_message(one: Pod, kept_max: int) -> None:
    held = Held(one, pod_demand(pod()), START_MS, place=7)
    with _kept_parts(kept_max):
        for _ in range(2):
            assert encode_held(held, None) == plain(held, None)


def test_no_more_parts_than_the_limit_are_kept() -> None:
    with _kept_parts(100):
        for count in range(300):
            each = pod("pod", cpu=f"0.{count:04}")
            encode_held(Held(each, pod_demand(pod()), START_MS), None)
        assert len(inventory_rows._PARTS) <= 100


@given(changes)
def test_places_order_the_pods_of_a_node_also_when_it_is_put_together_from_its_rows(
    steps: list[tuple[str, str, str]],
) -> None:
    inventory = Inventory(Policy())
    for moment, (what, name, uid) in enumerate(steps):
        if what != "encode":
            change(inventory, what, name, uid, moment)
    for node in inventory.nodes.values():
        places = [held.place for held in node.held.values()]
        assert places == sorted(set(places))
    again = Inventory(Policy())
    again.numbers.sequence = inventory.numbers.sequence
    for each in (inventory, again):
        each.numbers.sequence += 1
    assert again.numbers.next_place() == inventory.numbers.next_place()
