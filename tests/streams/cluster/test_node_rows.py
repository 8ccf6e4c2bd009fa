from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.metrics import HostApplicationMetric, NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.usage import Pressure, ResourcePressure, Stalled
from schemas.policy import Policy
from schemas.storage.rows import NodeRow
from schemas.topics.codec import encode
from streams.cluster.inventory_rows import NodeRows
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from tests.streams.cluster.builders import (
    aggregated,
    at,
    metric,
    node,
    node_gone,
    pod_metric,
    tick,
)
from tests.streams.cluster.harness import Run
from tests.streams.cluster.strategies import CLUSTER, node_states

_STALLED = Stalled(avg10_bp=1, avg60_bp=2, avg300_bp=3)
METRICS = (
    metric(cpu=100, memory=5),
    metric(usage=None, updated_at_ms=None, samples=3),
    metric(
        cpu=100,
        aggregated=(aggregated(300, p95={"memory": 30, "cpu": 3000}, avg={}),),
        pods=(pod_metric("b", cpu=7), pod_metric("a", memory=1, cpu=2)),
        host_applications=(HostApplicationMetric(name="h", usage={"memory": 1, "cpu": 2}),),
        pressure=Pressure(cpu=ResourcePressure(some=_STALLED)),
    ),
)


def plain(node: Node) -> bytes:
    """The row put together as a message, from nothing but the node."""
    return encode(
        NodeRow(
            cluster=CLUSTER,
            node=node.name,
            state=node.state,
            metric=node.usage.metric,
            metric_time_ms=node.usage.metric_time_ms,
            list_id=node.list_id,
        )
    )


@given(
    st.lists(st.tuples(st.none() | node_states(), st.sampled_from((None, *METRICS))), max_size=6)
)
def test_a_row_is_what_its_message_says(
    events: list[tuple[NodeState | None, NodeMetric | None]],
) -> None:
    inventory = Inventory(Policy())
    rows = NodeRows(CLUSTER, inventory)
    inventory.advance(at(0))
    for state, said in events:
        if state is not None:
            inventory.apply_node(state)
        if said is not None:
            inventory.apply_metric(said)
        for each in inventory.nodes.values():
            assert rows.encode(each.name) == plain(each)


def test_of_nodes_that_are_gone_no_text_is_kept() -> None:
    run = Run()
    run.say(tick())
    for number in range(20):
        name = f"node-{number}"
        run.say(node(name), metric(name))
        run.say(node_gone(name))
    run.say(node("kept"))
    (rows,) = [rows for rows in run.state.inventory_rows if isinstance(rows, NodeRows)]
    assert list(rows._states._kept) == ["kept"]


def test_nothing_is_known_of_a_node_that_is_not_there() -> None:
    inventory = Inventory(Policy())
    rows = NodeRows(CLUSTER, inventory)
    assert rows.encode("node-1") is None
    inventory.node("node-1")
    assert rows.encode("node-1") is None
