"""Invariants of the stages: of each record with its outputs, and of the state of the cluster stage.

`state` is the state of one cluster in the worker, and `cluster` is what is known of it from outside.
"""

from collections import Counter
from typing import Any

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.messages.dead_letters import DeadLetter, restore_record
from schemas.messages.metrics import NodeMetric
from schemas.storage.tables import kind_of_key
from schemas.topics.catalog import key_of
from schemas.topics.codec import decode, encode
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.cluster.state import ClusterState
from tests.histories.failure import Failure, require
from tests.histories.model import ClusterModel
from tests.histories.references import Applied
from tests.histories.world import World
from tests.schemas.messages.test_dead_letters import join_parts
from tests.streams.cluster.oracle import verdict

#: Rows that a refused record may change, since they count what was read.
_COUNTING_ROWS = {"partitions", "clusters"}
#: Results of a record that the aggregate stage used, or knew already.
_TAKEN = ("taken", "taken_late", "duplicate", "policy_adopted", "policy_repeated")


def check_dead_letters(applied: Applied) -> None:
    """A refused record is buried whole, and no other record is."""
    letters = applied.result.dead_letters
    require(
        bool(letters) == bool(applied.counts.refused), "a record is refused or buried, not both"
    )
    if not letters:
        return
    parts = [decode(letter.topic, letter.value) for letter in letters]
    try:
        letter = join_parts([part for part in parts if isinstance(part, DeadLetter)])
        actual = letter.topic, letter.partition, letter.offset, *restore_record(letter)
    except ValueError as error:
        raise Failure("a dead letter cannot be put together", str(error)) from error
    record = applied.record
    expected = record.topic, record.partition, record.offset, record.key, record.value
    require(actual == expected, "a dead letter holds another record")


def check_defects(applied: Applied) -> None:
    """No record is buried because of a defect of the stage."""
    for (topic, category), _ in applied.counts.refused.items():
        require(category != "internal", f"a record of {topic} met a defect", applied.result)


def check_outputs(applied: Applied) -> None:
    """An output has the key of its message, and its reader understands what its writer meant."""
    for message, raw in zip(applied.outputs, applied.result.outputs, strict=True):
        require(len(raw.value) <= VALUE_BYTES_MAX, f"a record of {raw.topic} is too large")
        require(
            raw.topic == "node-usage" or raw.key == key_of(raw.topic, message),
            f"a key of {raw.topic} is wrong",
        )
        same = encode(message) == raw.value or raw.topic == "node-metrics"
        require(same, f"a record of {raw.topic} is read as another message", raw.value)


def check_valid(applied: Applied) -> None:
    """Of valid records, only these are refused: those that are late or reach a limit, and users'
    requests about what is not under way."""
    for topic, category in applied.counts.refused:
        expected = (
            topic == "node-usage" and category in ("late", "limit"),
            topic == "node-metrics" and category in ("future", "late", "limit"),
            topic == "scheduling-requests" and category == "limit",
            topic == "migration-requests" and category == "invalid",
        )
        kind = f"a valid record of {topic} is refused: {category}"
        require(any(expected), kind, applied.result.dead_letters[0].value)


# --- the cluster stage ----------------------------------------------------------------------------------


def check_cluster_outcome(applied: Applied) -> None:
    """A record is applied or refused; a refused record causes nothing and changes no rows."""
    counts = applied.counts.results
    require(counts.total() == 1, "a record is counted twice or never", counts)
    if applied.outcome == "applied":
        return
    require(not applied.result.outputs, f"a record that is {applied.outcome} has outputs")
    kinds = {kind_of_key(row.key) for row in applied.result.rows}
    if applied.record.topic != "clock":
        require(kinds <= _COUNTING_ROWS, f"a record that is {applied.outcome} changes rows", kinds)


def check_clock(stage: ClusterStage, latest_tick_ms: int) -> None:
    """The time of the stage is that of the latest tick; it never goes back."""
    now_ms = stage.now_ms or 0
    require(now_ms == latest_tick_ms, "the time is not the latest tick", f"{now_ms}")


def check_as_of(applied: Applied) -> None:
    """An output names the offset of the record that caused it."""
    for message in applied.outputs:
        offsets = message.as_of.offsets if hasattr(message, "as_of") else None
        same = offsets is None or offsets.get(applied.record.topic) == applied.record.offset
        require(same, "an output does not name the record that caused it", message)


# --- the aggregate stage --------------------------------------------------------------------------------


def check_aggregate_outcome(stage: AggregateStage, applied: Applied) -> None:
    """A sample is taken, known already or refused; only a sample that is taken causes a metric."""
    counts = applied.counts.results
    kept, refused = sum(counts[word] for word in _TAKEN), bool(applied.counts.refused)
    require(kept <= 1 and bool(kept or refused), "a sample is counted twice or never", counts)
    # A sample may be taken while the metric that it completes is too large to be reported.
    reported = bool(counts["reported"] and counts["refused_limit"])
    require(not (kept and refused) or reported, "a sample is taken and refused", counts)
    if applied.outputs:
        require(counts["taken"] == 1, "a sample that is not taken causes a metric", counts)


def check_metric_time(stage: AggregateStage, applied: Applied) -> None:
    """A metric is as old as the newest sample of its node."""
    for metric in applied.outputs:
        assert isinstance(metric, NodeMetric)
        node = stage.state.nodes.get(f"{metric.cluster}/{metric.node}")
        is_newest = node is None or metric.updated_at_ms == node.newest_ms
        require(is_newest, "a metric is not as old as its newest sample", metric)


ALL = (check_dead_letters, check_defects, check_outputs)
AGGREGATE = (check_aggregate_outcome, check_metric_time)


def check_reserved_amounts(state: ClusterState) -> None:
    """What is reserved on a node is the sum of the requests of the pods that are held there."""
    for node in state.inventory.nodes.values():
        expected = Counter[str]()
        for held in node.held.values():
            expected.update(held.kind.demand.requests)
        actual = {name: amount for name, amount in node.requested.items() if amount}
        same = actual == {name: amount for name, amount in expected.items() if amount}
        require(same, "reserved amounts are not those of the pods", f"{node.name}: {actual}")


def check_held_once(state: ClusterState) -> None:
    """Every pod that is held is found on its node."""
    for uid, name in state.inventory.node_of_pod.items():
        node = state.inventory.nodes.get(name)
        require(node is not None and uid in node.held, "a pod is held on no node", uid)


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
        require(state.inventory.find_held(uid) is None, "a pod waits and has a node", uid)


def check_known_pods(state: ClusterState, cluster: ClusterModel) -> None:
    """A pod that runs or was placed is held on its node, until something says otherwise."""
    nodes = {uid: pod.node for uid, pod in cluster.running.items()}
    nodes |= {uid: decision.node for uid, decision in cluster.reserved.items()}
    for uid, node in nodes.items():
        actual = state.inventory.node_of_pod.get(uid)
        require(
            actual == node,
            "a pod is not held where it is known to be",
            f"{uid}: {actual}, not {node}",
        )


def check_requests(state: ClusterState, cluster: ClusterModel) -> None:
    """No request is forgotten: its pod waits or has a node, until there is a final answer."""
    for uid in cluster.waiting:
        request = state.placement.pending.get(uid) or state.inventory.find_held(uid)
        require(request is not None, "a request is forgotten", uid)


def check_restored(state: ClusterState, restored: ClusterState) -> None:
    """A state that is restored from its rows knows the same nodes, pods, requests and migrations."""
    for name, expected, actual in zip(_KNOWN, _describe(state), _describe(restored), strict=True):
        difference = {
            key for key in expected.keys() | actual.keys() if expected.get(key) != actual.get(key)
        }
        require(expected == actual, f"a restored state knows other {name}", difference)


_KNOWN = ("nodes", "pods", "requests", "migrations")


def _describe(state: ClusterState) -> tuple[dict[str, Any], ...]:
    """Return what a state knows, in the order of `_KNOWN`."""
    nodes = state.inventory.nodes
    return (
        {name: (node.state, node.usage.metric) for name, node in nodes.items()},
        {
            uid: (name, nodes[name].held[uid].pod)
            for uid, name in state.inventory.node_of_pod.items()
        },
        {waiting.request.pod.uid: waiting.request for waiting in state.placement.pending},
        {row.migration_id: row for row in state.migrations.lifecycle.registry},
    )


# --- the end of a history that was not hostile ------------------------------------------------------------


def check_pods(state: ClusterState, cluster: ClusterModel, world: World) -> None:
    """The stage knows the pods and their nodes as they are."""
    expected = {pod["uid"]: pod["node"] for pod in world.bound_pods()}
    actual = dict(state.inventory.node_of_pod)
    differing = {
        uid: (actual.get(uid), expected.get(uid))
        for uid in actual.keys() | expected.keys()
        if actual.get(uid) != expected.get(uid)
    }
    require(not differing, "the stage knows other pods than there are", differing)


def check_nodes(state: ClusterState, cluster: ClusterModel, world: World) -> None:
    """The stage knows the nodes that there are."""
    actual = {node.name for node in state.inventory.nodes.values() if node.state is not None}
    require(actual == set(world.nodes), "the stage knows other nodes than there are", actual)


def check_waiting(state: ClusterState, cluster: ClusterModel, world: World) -> None:
    """The pods that wait are those that ask for a node and were not refused."""
    actual = {waiting.request.pod.uid for waiting in state.placement.pending}
    expected = world.waiting_pods.keys() - cluster.refused
    require(actual == expected, "other pods wait than ask", actual ^ expected)


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
