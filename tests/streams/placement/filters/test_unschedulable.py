"""Filter NodeUnschedulable."""

import pytest
from hypothesis import given

from schemas.messages.pods import Pod, Toleration
from streams.inventory.node import Node
from streams.pods.kind import Kind
from tests.streams.builders import bare_kind, bare_node
from tests.streams.cluster.oracle import check_filter
from tests.streams.strategies import Event, histories, wanted_kinds
from tests.streams.world import filter_world

KEY = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("toleration", "accepted"),
    [
        (Toleration(key=KEY, operator="Exists", effect="NoSchedule"), True),
        (Toleration(key=KEY, operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key=KEY), True),
        (Toleration(key=KEY, value="true"), False),
        (Toleration(key=KEY, operator="Exists", effect="NoExecute"), False),
        (Toleration(key="dedicated", operator="Exists"), False),
    ],
)
def test_only_a_toleration_of_the_cordon_taint_lifts_the_cordon(
    toleration: Toleration, accepted: bool
) -> None:
    nodes = filter_world("NodeUnschedulable", bare_node("a", unschedulable=True))
    assert nodes.passing(bare_kind(tolerations=(toleration,))) == (["a"] if accepted else [])


@given(histories(), wanted_kinds())
def test_mask_and_reasons_follow_every_change(history: list[Event], kinds: list[Kind]) -> None:
    def accepts(pod: Pod, node: Node) -> bool:
        assert node.state is not None
        tolerated = any(
            t.key in ("", KEY)
            and t.effect in ("", "NoSchedule")
            and (t.operator == "Exists" or t.value == "")
            for t in pod.tolerations
        )
        return tolerated or not node.state.unschedulable

    check_filter("NodeUnschedulable", history, kinds, accepts)
