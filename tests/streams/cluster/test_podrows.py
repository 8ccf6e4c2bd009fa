from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import encode
from schemas.policy import Policy
from schemas.rows import HeldPod, ReservedPodsRow
from streams.cluster.demand import pod_demand
from streams.cluster.inventory import Inventory
from streams.cluster.node import Held, Node
from streams.cluster.podrows import PodRows
from tests.streams.cluster.builders import CLUSTER, START_MS, lifecycle, pod

NODES = ("a", "b")
UIDS = tuple(f"pod-{number}" for number in range(4))


def plain(node: Node) -> bytes | None:
    """The row put together as a message, from nothing but the node."""
    pods = []
    for uid, held in node.held.items():
        counted = node.load.assigned.get(uid)
        pods.append(
            HeldPod(
                pod=held.pod,
                counted=counted.pod if counted and counted.pod != held.pod else None,
                counted_at_ms=counted.cached_at_ms if counted else None,
                assigned_at_ms=held.assigned_at_ms,
                decision_id=held.decision_id,
                expires_at_ms=held.expires_at_ms,
                requested_at_ms=held.requested_at_ms,
                attempt=held.attempt,
                sequence=held.sequence,
                list_id=held.list_id,
            )
        )
    row = ReservedPodsRow(cluster=CLUSTER, node=node.name, pods=tuple(pods))
    return encode(row) if pods else None


def change(inventory: Inventory, what: str, node: str, uid: str, moment: int) -> None:
    """One of the things that happen to a held pod."""
    inventory.advance(START_MS + moment)
    inventory.sequence += 1
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
        inventory.observe(lifecycle("changed", labelled, node))
    elif what == "resize":
        inventory.observe(lifecycle("changed", pod(uid, cpu=str(1 + moment)), node))
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


@given(changes, st.sampled_from((0, 700, 1_000_000)))
def test_a_row_is_that_of_its_message_whatever_was_kept_of_earlier_ones(
    steps: list[tuple[str, str, str]], kept_bytes_max: int
) -> None:
    inventory, rows = Inventory(Policy()), PodRows(kept_bytes_max)
    for moment, (what, name, uid) in enumerate([*steps, *(("encode", n, "") for n in NODES)]):
        if what != "encode":
            change(inventory, what, name, uid, moment)
        elif (node := inventory.nodes.get(name)) is not None:
            assert rows.encode(CLUSTER, node) == plain(node)


def test_what_is_kept_stays_within_its_bound_and_goes_with_the_pods() -> None:
    inventory, rows = Inventory(Policy()), PodRows(10_000)
    for number in range(100):
        name = f"node-{number}"
        one = pod(f"pod-{number}")
        held = Held(one, pod_demand(one), START_MS)
        inventory.hold(name, held, first_seen=True)
        rows.encode(CLUSTER, inventory.nodes[name])
        assert 0 < rows.kept_bytes <= 10_000
    for number in range(100):
        node = inventory.nodes[f"node-{number}"]
        inventory.release(f"pod-{number}")
        assert rows.encode(CLUSTER, node) is None
    assert rows.kept_bytes == 0


def test_a_pod_that_was_replaced_by_an_equal_one_changes_no_byte() -> None:
    inventory, rows = Inventory(Policy()), PodRows()
    held = Held(pod(), pod_demand(pod()), START_MS)
    inventory.hold("a", held, first_seen=True)
    node = inventory.nodes["a"]
    before = rows.encode(CLUSTER, node)
    node.held["pod-1"] = replace(held)
    assert rows.encode(CLUSTER, node) == before
