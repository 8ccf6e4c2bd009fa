"""Filter TaintToleration."""

import pytest
from hypothesis import given

from schemas.nodes import NodeState, Taint
from schemas.pods import Pod, Toleration
from streams.inventory.kind import Kind, kind_of
from streams.inventory.node import Node
from streams.placement.plugins.taints import TaintToleration, refusing, tolerates, untolerated
from tests.streams.placement.plugins.history import (
    Event,
    Follower,
    check_history,
    histories,
    new_node,
    wanted,
)

GPU = Taint(key="gpu", value="a100", effect="NoSchedule")
DRAIN = Taint(key="drain", effect="NoExecute")
WISH = Taint(key="old", effect="PreferNoSchedule")


def node(name: str, *taints: Taint) -> Node:
    return new_node(NodeState(cluster="test", node=name, event="added", taints=taints))


def tolerating(*tolerations: Toleration) -> Kind:
    return kind_of(Pod(namespace="default", name="p", uid="p", tolerations=tolerations))


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
    assert tolerates(toleration, GPU) is covered


def test_equal_without_a_value_covers_a_taint_without_one() -> None:
    assert tolerates(Toleration(key="drain"), DRAIN)


def test_every_taint_needs_a_toleration_and_any_one_will_do() -> None:
    gpu, drain = Toleration(key="gpu", operator="Exists"), Toleration(key="drain")
    assert untolerated((GPU, DRAIN), (gpu,)) == DRAIN
    assert untolerated((GPU, DRAIN), (drain, gpu)) is None
    assert untolerated((), ()) is None


def test_a_wish_refuses_nobody() -> None:
    assert refusing((WISH, GPU, DRAIN)) == (GPU, DRAIN)
    assert Follower(TaintToleration(), node("a", WISH)).passing(tolerating()) == ["a"]


def test_the_reason_names_the_first_untolerated_taint_of_the_node() -> None:
    nodes = Follower(
        TaintToleration(), node("a", WISH, GPU, DRAIN), node("b", DRAIN, GPU), node("c")
    )
    assert nodes.reasons(tolerating()) == {
        "a": "node(s) had untolerated taint {gpu: a100}",
        "b": "node(s) had untolerated taint {drain: }",
        "c": None,
    }
    assert nodes.passing(tolerating(Toleration(key="gpu", operator="Exists"))) == ["c"]


def test_without_taints_in_the_cluster_nothing_is_computed() -> None:
    nodes = Follower(TaintToleration(), node("a", GPU), node("b"))
    assert nodes.passing(tolerating()) == ["b"]
    nodes.apply(NodeState(cluster="test", node="a", event="changed"))
    assert nodes.plugin.mask(nodes.plugin.prepare(tolerating())) is None


def covers(toleration: Toleration, taint: Taint) -> bool:
    """The documented rules, one by one."""
    right_effect = toleration.effect in ("", taint.effect)
    right_key = toleration.key in ("", taint.key)
    any_value = toleration.operator == "Exists"
    right_value = toleration.operator in ("", "Equal") and toleration.value == taint.value
    return right_effect and right_key and (any_value or right_value)


@given(histories(), wanted())
def test_mask_and_reasons_follow_every_change(history: list[Event], kinds: list[Kind]) -> None:
    def accepts(pod: Pod, node: Node) -> bool:
        assert node.state is not None
        return all(
            taint.effect == "PreferNoSchedule" or any(covers(t, taint) for t in pod.tolerations)
            for taint in node.state.taints
        )

    check_history(TaintToleration(), history, kinds, accepts)
