"""Filter TaintToleration."""

import pytest
from hypothesis import given

from schemas.messages.nodes import Taint
from schemas.messages.pods import Pod, Toleration
from streams.inventory.node import Node
from streams.placement.filters.taints import Tolerations
from streams.pods.kind import Kind
from tests.streams.builders import bare_kind, bare_node
from tests.streams.cluster.oracle import check_filter
from tests.streams.strategies import Event, histories, wanted_kinds
from tests.streams.world import filter_world

GPU = Taint(key="gpu", value="a100", effect="NoSchedule")
DRAIN = Taint(key="drain", effect="NoExecute")
WISH = Taint(key="old", effect="PreferNoSchedule")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        (Toleration(key="gpu", operator="Equal", value="a100"), True),
        (Toleration(key="gpu", operator="", value="a100"), True),
        (Toleration(key="gpu", operator="Equal", value="h100"), False),
        (Toleration(key="gpu", operator="Equal"), False),
        (Toleration(key="GPU", operator="Exists"), False),
        (Toleration(key="gpu", operator="Exists"), True),
        (Toleration(key="gpu", operator="Exists", value="h100"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoSchedule"), True),
        (Toleration(key="gpu", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="gpu", operator="Exists", effect="PreferNoSchedule"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(operator="Equal", value="a100"), True),
        (Toleration(operator="Equal"), False),
    ],
)
def test_a_toleration_covers_a_taint_as_in_kubernetes(
    toleration: Toleration, covered: bool
) -> None:
    assert Tolerations((toleration,)).covers(GPU) is covered


def test_the_reason_names_the_first_untolerated_taint_of_the_node() -> None:
    nodes = filter_world(
        "TaintToleration",
        bare_node("a", taints=(WISH, GPU, DRAIN)),
        bare_node("b", taints=(DRAIN, GPU)),
        bare_node("c"),
    )
    assert nodes.reasons(bare_kind()) == {
        "a": "node(s) had untolerated taint {gpu: a100}",
        "b": "node(s) had untolerated taint {drain: }",
        "c": None,
    }
    assert nodes.passing(bare_kind(tolerations=(Toleration(key="gpu", operator="Exists"),))) == [
        "c"
    ]


def test_without_taints_in_the_cluster_nothing_is_computed() -> None:
    nodes = filter_world(
        "TaintToleration",
        bare_node("a", taints=(GPU,)),
        bare_node("b"),
    )
    assert nodes.passing(bare_kind()) == ["b"]
    nodes.send(bare_node("a", event="changed"))
    assert nodes.filter.mask(nodes.filter.prepare(bare_kind())) is None


def test_the_cost_counts_taints_and_not_only_the_nodes_that_have_them() -> None:
    def units(count: int) -> int:
        taints = tuple(Taint(key=f"k{at}", effect="NoSchedule") for at in range(count))
        lists = [(*taints, Taint(key=f"own-{at}", effect="NoSchedule")) for at in range(50)]
        nodes = filter_world(
            "TaintToleration", *(bare_node(f"n{at}", taints=of) for at, of in enumerate(lists))
        )
        return nodes.filter.count_units(nodes.filter.prepare(bare_kind()))

    assert units(200) > 20 * units(1)


def covers(toleration: Toleration, taint: Taint) -> bool:
    """The documented rules, one by one."""
    right_effect = toleration.effect in ("", taint.effect)
    right_key = toleration.key in ("", taint.key)
    any_value = toleration.operator == "Exists"
    right_value = toleration.operator in ("", "Equal") and toleration.value == taint.value
    return right_effect and right_key and (any_value or right_value)


@given(histories(), wanted_kinds())
def test_mask_and_reasons_follow_every_change(history: list[Event], kinds: list[Kind]) -> None:
    def accepts(pod: Pod, node: Node) -> bool:
        assert node.state is not None
        return all(
            taint.effect == "PreferNoSchedule" or any(covers(t, taint) for t in pod.tolerations)
            for taint in node.state.taints
        )

    check_filter("TaintToleration", history, kinds, accepts)
