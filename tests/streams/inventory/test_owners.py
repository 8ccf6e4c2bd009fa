"""Pods by their controller, and nodes that are kept free of new pods."""

from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.pods import OwnerReference
from schemas.policy import read_policy
from streams.inventory.full_lists import find_unlisted_pods
from streams.inventory.inventory import Inventory
from streams.inventory.pod_events import apply_lifecycle
from streams.inventory.pod_index import OwnedPods
from streams.placement.placer import Placer
from streams.pods.held_pod import HeldPod
from streams.pods.kind import kind_of
from tests.streams.builders import CLUSTER, lifecycle, node, pod, removed_node, replica


def test_owners_count_pods_that_are_not_ready() -> None:
    owners = OwnedPods()
    owners.add(replica("a"))
    owners.add(replica("b", ready=False))
    assert (len(owners.list_pods("web")), list(owners.list_unready("web"))) == (2, ["b"])
    owners.add(replica("b"))
    owners.drop("a")
    assert (list(owners.list_pods("web")), len(owners.list_unready("web"))) == (["b"], 0)
    owners.add(replica("c", owners=()))
    owners.drop("b")
    assert not owners.list_pods("web")


def test_a_pod_that_changes_its_controller_counts_for_the_new_one_only() -> None:
    inventory = Inventory(read_policy(""))
    apply_lifecycle(inventory, lifecycle("running", replica("a", "web", ready=False), "node-1"))
    apply_lifecycle(inventory, lifecycle("changed", replica("a", "db", ready=False), "node-1"))
    assert not inventory.owners.list_pods("web")
    assert not inventory.owners.list_unready("web")
    assert list(inventory.owners.list_unready("db")) == ["a"]
    apply_lifecycle(inventory, lifecycle("changed", replica("a", owners=()), "node-1"))
    assert not inventory.owners.list_pods("db")


def test_only_a_reference_that_controls_is_the_controller() -> None:
    one = OwnerReference(kind="Custom", uid="x")
    two = OwnerReference(kind="ReplicaSet", uid="y", controller=True)
    assert pod(owners=(one,)).controller is None
    assert pod(owners=(one, two)).controller == two


def test_a_drain_cordons_a_node_that_is_added_later() -> None:
    inventory = Inventory(read_policy(""))
    placer = Placer(inventory)
    inventory.set_cordoned("node-1", cordoned=True)
    inventory.apply_node(node("node-1"))
    inventory.apply_node(node("node-2"))
    ranking = placer.rank(kind_of(pod()))
    assert inventory.index.nodes[ranking.find_best() or 0].name == "node-2"
    inventory.set_cordoned("node-1", cordoned=False)
    ranking = placer.rank(kind_of(pod()))
    assert inventory.index.nodes[ranking.find_best() or 0].name == "node-1"
    inventory.apply_node(removed_node("node-2"))
    assert not inventory.cordoned


def test_room_for_a_replacement_is_not_released_by_a_list() -> None:
    inventory = Inventory(read_policy(""))
    inventory.apply_node(node("node-1"))
    for uid, ends in (("room", 10), ("bound", None)):
        member = pod(uid)
        held = HeldPod(member, kind_of(member), 0, expires_at_ms=ends)
        inventory.hold("node-1", held, first_seen=True)
    inventory.numbers.records_applied = 5
    inventory.lists.begin(
        "pod-lifecycle", ListBegin(cluster=CLUSTER, list_id="l"), inventory.numbers.records_applied
    )
    inventory.numbers.records_applied = 6
    ended = inventory.lists.end("pod-lifecycle", ListEnd(cluster=CLUSTER, list_id="l"))
    assert ended is not None
    assert list(find_unlisted_pods(inventory.nodes, *ended)) == ["bound"]
