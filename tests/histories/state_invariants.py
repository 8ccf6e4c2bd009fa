"""What must hold of the state of the cluster stage: after every event, and at the end of a history.

`state` is the state of one cluster in the worker, and `model` what is known of it from outside.
"""

from collections import Counter
from typing import Any

from streams.cluster.state import ClusterState
from tests.histories.failure import require
from tests.histories.model import ClusterModel
from tests.histories.world import World
from tests.streams.cluster.oracle import verdict


def check_reserved_amounts(state: ClusterState) -> None:
    """What is reserved on a node is the sum of the requests of the pods that are held there."""
    for node in state.inventory.nodes.values():
        expected = Counter[str]()
        for held in node.held.values():
            expected.update(held.demand.requests)
        found = {name: amount for name, amount in node.requested.items() if amount}
        same = found == {name: amount for name, amount in expected.items() if amount}
        require(same, "reserved amounts are not those of the pods", f"{node.name}: {found}")


def check_held_once(state: ClusterState) -> None:
    """Every pod that is held is found on its node."""
    for uid, name in state.inventory.where.items():
        node = state.inventory.nodes.get(name)
        require(node is not None and uid in node.held, "a pod is held on no node", uid)
    count = sum(len(node.held) for node in state.inventory.nodes.values())
    require(count == state.inventory.held_pods, "held pods are counted wrongly", count)


def check_expired(state: ClusterState) -> None:
    """No reservation of a decision outlives its time."""
    for node in state.inventory.nodes.values():
        for uid, held in node.held.items():
            if held.decision_id is not None and held.expires_at_ms is not None:
                lives = held.expires_at_ms > state.inventory.now_ms
                require(lives, "a reservation outlives its time", uid)


def check_waiting_once(state: ClusterState) -> None:
    """A pod that waits holds no room, except for a replacement that was planned."""
    for waiting in state.placement.pending:
        uid = waiting.request.pod.uid
        require(state.inventory.held(uid) is None, "a pod waits and has a node", uid)


def check_known_pods(state: ClusterState, cluster: ClusterModel) -> None:
    """A pod that runs or was placed is held on its node, until something says otherwise."""
    nodes = {uid: pod.node for uid, pod in cluster.running.items()}
    nodes |= {uid: decision.node for uid, decision in cluster.reserved.items()}
    for uid, node in nodes.items():
        found = state.inventory.where.get(uid)
        require(
            found == node,
            "a pod is not held where it is known to be",
            f"{uid}: {found}, not {node}",
        )


def check_requests(state: ClusterState, cluster: ClusterModel) -> None:
    """No request is forgotten: its pod waits or has a node, until there is a final answer."""
    for uid in cluster.waiting:
        known = state.placement.pending.get(uid) or state.inventory.held(uid)
        require(known is not None, "a request is forgotten", uid)


def check_restored(state: ClusterState, restored: ClusterState) -> None:
    """A state that is restored from its rows knows the same nodes, pods, requests and migrations."""
    for name, expected, found in zip(_KNOWN, _describe(state), _describe(restored), strict=True):
        difference = {
            key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key)
        }
        require(expected == found, f"a restored state knows other {name}", difference)


_KNOWN = ("nodes", "pods", "requests", "migrations")


def _describe(state: ClusterState) -> tuple[dict[str, Any], ...]:
    """Return what a state knows, in the order of `_KNOWN`."""
    nodes = state.inventory.nodes
    return (
        {name: (node.state, node.usage.metric) for name, node in nodes.items()},
        {uid: (name, nodes[name].held[uid].pod) for uid, name in state.inventory.where.items()},
        {each.request.pod.uid: each.request for each in state.placement.pending},
        {row.migration_id: row for row in state.migrations.lifecycle.registry},
    )


# --- the end of a history that was not hostile ------------------------------------------------------------


def check_pods(state: ClusterState, cluster: ClusterModel, world: World) -> None:
    """The stage knows the pods and their nodes as they are."""
    expected = {pod["uid"]: pod["node"] for pod in world.bound_pods()}
    found = dict(state.inventory.where)
    differing = {
        uid: (found.get(uid), expected.get(uid))
        for uid in found.keys() | expected.keys()
        if found.get(uid) != expected.get(uid)
    }
    require(not differing, "the stage knows other pods than there are", differing)


def check_nodes(state: ClusterState, cluster: ClusterModel, world: World) -> None:
    """The stage knows the nodes that there are."""
    found = {node.name for node in state.inventory.nodes.values() if node.state is not None}
    require(found == set(world.nodes), "the stage knows other nodes than there are", found)


def check_waiting(state: ClusterState, cluster: ClusterModel, world: World) -> None:
    """The pods that wait are those that ask for a node and were not refused."""
    found = {waiting.request.pod.uid for waiting in state.placement.pending}
    expected = world.asking.keys() - cluster.refused
    require(found == expected, "other pods wait than ask", found ^ expected)


def check_placeable(state: ClusterState, cluster: ClusterModel, world: World) -> None:
    """No pod waits that a node would take, by the simple rules of the oracle."""
    for waiting in state.placement.pending:
        best = verdict(state.policy, state.inventory, waiting.kind).best
        require(best is None, "a pod waits that a node would take", waiting.request.pod.uid)


def check_commands(state: ClusterState, cluster: ClusterModel, world: World) -> None:
    """Every command has an outcome or has expired, and every migration ends at its deadline."""
    require(not cluster.commands, "a command has neither an outcome nor expired", cluster.commands)
    for row in state.migrations.lifecycle.registry:
        goes_on = row.paused or row.deadline_ms > state.inventory.now_ms
        require(goes_on, "a migration does not end", row)


EVERY_EVENT = (check_reserved_amounts, check_held_once, check_expired, check_waiting_once)
END = (check_pods, check_nodes, check_waiting, check_placeable, check_commands)
