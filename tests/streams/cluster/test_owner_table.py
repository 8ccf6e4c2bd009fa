"""What is known of owners is rows, which a worker starts again from."""

from collections.abc import Sequence
from typing import Any

import pytest

from schemas.metrics import PodLives
from schemas.pods import OwnerReference
from schemas.usage_moments import OwnerUsageRow
from streams.inventory.kind import kind_of, owned
from streams.inventory.owner_usage import USAGE_OWNER_ANNOTATION
from tests.streams.cluster.builders import (
    OWNED_UIDS,
    OWNERS,
    at,
    lifecycle,
    metric,
    node,
    owned_pod,
    owned_pods,
    owned_use,
    pod,
    pod_metric,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Run

_FLEET = (
    "plugins: {score: [OverutilizationRisk]}\noverutilizationRisk: {resources: [{name: cpu}]}\n"
)
_OWNER = _FLEET.replace("}]}", "}], profiles: owner}")


#: Kubernetes has no kind with a slash in its name.
_IN_NO_CLUSTER = OwnerReference(kind="a/" + 500 * "b", name=512 * "n", uid="u", controller=True)


def _measure(run: Run, minute: int, uids: Sequence[str]) -> None:
    run.measure({uid: owned_use(uid) for uid in uids}, 60 * minute)


def _run(policy: str = _OWNER) -> Run:
    run = Run()
    run.say(tick(0), policy_record(policy), node(cpu="100"), node("node-2", cpu="100"))
    for each in owned_pods():
        run.say(lifecycle("bound", each, "node-1"))
    for minute in (5, 10, 15, 20):
        _measure(run, minute, OWNED_UIDS)
    run.say(tick(60 * 21))
    return run


def _rows(run: Run) -> dict[str, OwnerUsageRow]:
    return {key: run.row("owner_usage", key, OwnerUsageRow) for key in run.keys("owner_usage")}


def test_each_owner_is_a_row() -> None:
    rows = _rows(_run())
    assert len(rows) == OWNERS
    row = next(each for each in rows.values() if each.name == "set-11")
    assert (row.namespace, row.kind) == ("default", "StatefulSet")
    figures = row.figures["cpu"]
    assert figures.pods_milli == 5_000
    assert figures.own.usage_ppm == 880_000
    assert figures.weight_ppm > 900_000
    assert row.past == {}


def test_a_restart_changes_nothing_of_what_is_known_and_expected() -> None:
    steady, restarted = _run(), _run()
    for turn, run in enumerate((steady, restarted)):
        for gone in (OWNED_UIDS[0], OWNED_UIDS[1]):
            run.say(lifecycle("deleted", owned_pod(gone, int(gone[4:]))))
        if turn:
            run.restart()
        run.say(lifecycle("deleted", owned_pod(OWNED_UIDS[2], 2)))
        for minute in (25, 30, 40):
            _measure(run, minute, OWNED_UIDS[3:])
        run.say(request(owned_pod("new", 11)), tick(60 * 41))
    assert _rows(steady) == _rows(restarted)
    assert any(row.past for row in _rows(steady).values())
    left, right = (run.state.inventory for run in (steady, restarted))
    for name in ("node-1", "node-2"):
        mine, theirs = left.nodes[name].moments, right.nodes[name].moments
        assert mine is not None
        assert theirs is not None
        assert mine.figures() == theirs.figures()
    assert steady.outputs == restarted.outputs


@pytest.mark.parametrize("ticked", [False, True])
def test_a_pod_that_goes_before_figures_were_worked_out_is_remembered_with_the_logs_time(
    ticked: bool,
) -> None:
    run = Run()
    if ticked:
        run.say(tick(0), policy_record(_FLEET), tick(1200))
    run.say(policy_record(_OWNER.replace("}]", "}, {name: memory}]")), node())
    old = owned_pod("a", 3).model_copy(update={"scheduled_at_ms": at(0)})
    run.say(lifecycle("bound", old, "node-1"))
    lives = PodLives(
        minutes=(20,),
        mean={"cpu": (500,), "memory": (1000,)},
        deviation={"cpu": (0,), "memory": (0,)},
    )
    pods = (pod_metric("a", cpu=500, memory=1000),)
    run.say(metric(cpu=500, seconds=1200, pods=pods).model_copy(update={"lives": lives}))
    run.say(lifecycle("deleted", old))
    rows = _rows(run)
    assert [row.seen_at_ms for row in rows.values()] == [at(1200)] * ticked
    assert run.state.inventory.held_pods == 0
    run.restart()
    assert _rows(run) == rows


@pytest.mark.parametrize(
    "odd",
    [
        {"uid": "reserved-x", "annotations": {USAGE_OWNER_ANNOTATION: "nobody"}},
        {"uid": "reserved-x", "annotations": {USAGE_OWNER_ANNOTATION: f"a/b/{'c' * 513}"}},
        {"owners": (_IN_NO_CLUSTER,)},
    ],
)
def test_a_pod_that_names_its_owner_as_nothing_in_kubernetes_is_called_is_nobodys(
    odd: dict[str, Any],
) -> None:
    run = Run()
    run.say(tick(0), policy_record(_OWNER), node())
    run.say(lifecycle("bound", pod("a").model_copy(update=odd), "node-1"))
    for minute in range(5, 30, 5):
        run.measure({"a": 500}, 60 * minute)
    assert _rows(run) == {}
    assert run.state.inventory.held_pods == 1


def test_a_pod_counts_by_what_its_owners_other_pods_use() -> None:
    means = []
    for policy in (_OWNER, _FLEET):
        run = _run(policy)
        before = run.state.inventory.nodes["node-2"].moments
        assert before is not None
        for owner in (0, 11):
            run.say(lifecycle("bound", owned_pod(f"new-{owner}", owner), "node-2"))
            means.append(before.figures()[0][0])
            run.say(lifecycle("deleted", owned_pod(f"new-{owner}", owner)))
    light, heavy, *as_the_fleet = means
    assert light < 100
    assert 800 < heavy < 900
    assert as_the_fleet[0] == as_the_fleet[1]


def test_a_node_has_the_mean_and_the_variance_of_its_pods() -> None:
    moments = _run().state.inventory.nodes["node-1"].moments
    held = _run().state.inventory.nodes["node-1"].held
    assert moments is not None
    pods = [moments.figures_of(each)[0] for each in held.values()]
    ((mean, variance),) = moments.figures()
    assert sum(each for each, _ in pods) == pytest.approx(mean)
    assert sum(each for _, each in pods) == pytest.approx(variance)


def test_the_score_expects_of_a_pod_what_its_owners_other_pods_use() -> None:
    run = _run()
    run.say(node("small", cpu="1"))
    placer = run.state.placement.placer
    placer.inventory.lay_out()
    ((plugin, _),) = placer.scores
    raw = []
    for owner in (0, 11):
        kind = kind_of(owned_pod("new", owner))
        prepared = plugin.prepare(owned(kind, f"default/StatefulSet/set-{owner}"))
        scores = plugin.scores(prepared).tolist()
        assert scores == [plugin.score(prepared, row) for row in range(len(scores))]
        raw.append(scores[-1])
    light, heavy = raw
    assert heavy < light / 100


def test_pods_of_one_kind_share_a_ranking_unless_their_owners_say_otherwise() -> None:
    run = _run()
    placer = run.state.placement.placer
    light, heavy, new = (owned_pod(f"new-{owner}", owner) for owner in (0, 11, OWNERS))
    kind = kind_of(light)
    assert placer.rank(kind, light) is not placer.rank(kind, heavy)
    assert placer.rank(kind, heavy) is placer.rank(kind, heavy)
    assert placer.rank(kind, new) is placer.rank(kind)


def test_rows_go_with_the_policy_that_asked() -> None:
    run = _run()
    run.say(policy_record(_OWNER + "maxPendingRequests: 7\n"))
    assert len(_rows(run)) == OWNERS
    run.say(policy_record(_FLEET))
    assert _rows(run) == {}


def test_a_policy_that_asks_again_learns_from_the_pods_that_are_there() -> None:
    run = _run(_FLEET)
    assert _rows(run) == {}
    run.say(policy_record(_OWNER), tick(60 * 26))
    assert len(_rows(run)) == OWNERS
