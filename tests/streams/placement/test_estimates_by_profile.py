"""Load-aware filter and score with estimates by what other pods use (`estimateBy`)."""

import pytest

from schemas.base import STRING_MAP_MAX
from schemas.decisions import PlacementDecision, UsualUse
from schemas.migrations import MigrationRow
from schemas.pods import OwnerReference, Pod, PodRef
from streams.inventory.load import NodeLoad
from streams.inventory.owner_usage import USAGE_OWNER_ANNOTATION, owner_of
from tests.streams.cluster.builders import (
    OWNED_UIDS,
    OWNERS,
    at,
    controlled_by,
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
from tests.streams.cluster.harness import Run, only


def _policy(by: str, margin: int = 0, thresholds: str = "{cpu: 50}") -> str:
    return (
        "plugins: {score: [LoadAwareScheduling]}\noverutilizationRisk: {resources: [{name: cpu}]}\n"
        f"loadAware: {{usageThresholds: {thresholds}, estimateBy: {by}, "
        f"estimateMarginPercent: {margin}}}\n"
    )


def _measure(run: Run, minute: int, cpu: int | None = None) -> None:
    run.say(tick(60 * minute))
    pods = tuple(
        pod_metric(uid, cpu=owned_use(uid) if cpu is None else cpu, memory=0) for uid in OWNED_UIDS
    )
    run.say(metric(cpu=24_000, seconds=60 * minute, pods=pods))
    run.say(metric("node-2", cpu=0, seconds=60 * minute))


def _run(policy: str) -> Run:
    run = Run()
    run.say(tick(0), policy_record(policy), node(cpu="100"), node("node-2", cpu="2"))
    for each in owned_pods():
        run.say(lifecycle("bound", each, "node-1"))
    for minute in (5, 10, 15, 20):
        _measure(run, minute)
    run.say(tick(60 * 21))
    return run


def _load(run: Run, name: str = "node-2") -> NodeLoad:
    return run.state.inventory.nodes[name].load


def _decide(run: Run, of: Pod) -> PlacementDecision:
    return only(run.say(request(of)))


@pytest.mark.parametrize(
    ("by", "light", "heavy"), [("requests", 850, 850), ("fleet", 542, 542), ("owner", 3, 876)]
)
def test_a_pod_is_estimated_by_what_its_owners_other_pods_use(
    by: str, light: int, heavy: int
) -> None:
    run = _run(_policy(by))
    for owner, expected in ((0, light), (11, heavy)):
        run.say(lifecycle("bound", owned_pod(f"new-{owner}", owner), "node-2"))
        assert _load(run).delta[0] == pytest.approx(expected, abs=6)
        run.say(lifecycle("deleted", owned_pod(f"new-{owner}", owner)))
        assert _load(run).delta == (0, 0)


def test_a_resource_without_a_profile_is_estimated_by_requests() -> None:
    run = _run(_policy("owner"))
    run.say(lifecycle("bound", pod("new", memory="1Gi"), "node-2"))
    assert _load(run).delta[1] == 751_619_277
    assert "memory" not in str(_decide(run, pod("next", memory="1Gi")).estimated_by)


def test_a_margin_is_part_of_the_deviation() -> None:
    estimates = []
    for margin in (0, 50, 100):
        run = _run(_policy("fleet", margin))
        run.say(lifecycle("bound", owned_pod("new", 0), "node-2"))
        estimates.append(_load(run).delta[0])
    mean, some, whole = estimates
    fleet = run.state.inventory.moments.fleet
    assert fleet is not None
    (figures,) = fleet.figures
    deviation = (figures.variance_ppm + figures.spread_ppm) ** 0.5
    assert whole - mean == pytest.approx(deviation, abs=2)
    assert some - mean == pytest.approx(deviation / 2, abs=2)


def test_an_estimate_follows_the_profile_and_is_forgotten_once_the_pod_is_measured() -> None:
    run = _run(_policy("fleet"))
    run.say(lifecycle("bound", owned_pod("new", 0), "node-2"))
    before = _load(run).delta[0]
    for minute in (25, 30, 35):
        _measure(run, minute, cpu=5_000)
    run.say(tick(60 * 36))
    assert _load(run).delta[0] > 1.5 * before
    assert _load(run).estimated == _load(run).delta
    run.say(tick(60 * 40))
    run.say(metric("node-2", cpu=10, seconds=60 * 40, pods=(pod_metric("new", cpu=10, memory=0),)))
    assert _load(run).delta[0] == 0
    assert _load(run).estimated[0] > 1.5 * before
    # The metric does not know it any more: it is estimated, by the profile as it is by now.
    for minute in (45, 50, 55, 60, 65):
        _measure(run, minute, cpu=0)
    run.say(tick(60 * 66))
    assert _load(run).delta == _load(run).estimated
    assert 0 < _load(run).delta[0] < 5 * before


def test_a_decision_says_by_whose_pods_the_estimate_is() -> None:
    run = _run(_policy("owner"))
    told = _decide(run, owned_pod("a", 11)).estimated_by
    assert told is not None
    assert (told.profile, told.owner) == ("owner", "default/StatefulSet/set-11")
    assert told.usage["cpu"] == pytest.approx(876, abs=6)
    fleet = _decide(run, pod("b", cpu="1")).estimated_by
    assert fleet is not None
    assert (fleet.profile, fleet.owner) == ("fleet", None)
    refused = _decide(run, owned_pod("c", 11, cpu="99"))
    assert refused.outcome == "waiting"
    assert isinstance(refused.estimated_by, UsualUse)
    amount = refused.estimated_by.usage["cpu"]
    assert refused.message.endswith(
        f"(the pod is expected to use {amount}m of cpu, by what pods of default/StatefulSet/set-11 use)"
    )
    assert _decide(_run(_policy("requests")), owned_pod("a", 11)).estimated_by is None


@pytest.mark.parametrize("scored", [False, True])
def test_of_a_daemon_it_is_said_only_where_the_score_goes_by_load(scored: bool) -> None:
    by = _policy("fleet") if scored else "loadAware: {estimateBy: fleet}"
    run = Run()
    run.say(tick(0), policy_record(by), node())
    daemon = pod("d", owners=controlled_by("set", "DaemonSet"))
    assert (only(run.say(request(daemon))).estimated_by is not None) is scored
    assert only(run.say(request())).estimated_by is not None


def test_an_owner_is_named_in_a_decision_however_long_its_name_is() -> None:
    run = Run()
    run.say(tick(0), policy_record(_policy("owner")), node(cpu="100"), node("node-2"))
    long = [
        OwnerReference(kind="K" * 512, name=f"{of:02}{'n' * 510}", uid=f"u-{of}", controller=True)
        for of in range(OWNERS)
    ]
    for uid in OWNED_UIDS:
        of = pod(uid, cpu="1", owners=(long[int(uid[4:]) % OWNERS],))
        run.say(lifecycle("bound", of, "node-1"))
    for minute in (5, 10, 15, 20):
        _measure(run, minute)
    run.say(tick(60 * 21))
    told = _decide(run, pod("new", cpu="1", owners=(long[-1],))).estimated_by
    assert told is not None
    assert told.owner is not None
    assert told.owner.startswith("default/KKK")
    refused = _decide(run, pod("large", cpu="99", owners=(long[-1],)))
    assert refused.message.endswith(f"by what pods of {told.owner} use)")


def test_a_pod_of_a_heavy_owner_does_not_hold_up_one_of_the_same_kind_that_uses_little() -> None:
    run = _run(_policy("owner"))
    run.say(node(cpu="1"))
    heavy, light = owned_pod("heavy", 11, cpu="1500m"), owned_pod("light", 0, cpu="1500m")
    assert _decide(run, heavy).outcome == "waiting"
    found = _decide(run, light)
    assert (found.outcome, found.node) == ("placed", "node-2")


def test_pods_that_wait_are_grouped_anew_by_a_policy_that_goes_by_owners() -> None:
    runs = [_run(_policy("requests", thresholds="{cpu: 1}")) for _ in range(2)]
    for turn, run in enumerate(runs):
        assert _decide(run, owned_pod("heavy", 11, cpu="1500m")).outcome == "waiting"
        assert _decide(run, owned_pod("light", 0, cpu="1500m")).outcome == "waiting"
        if turn:
            run.restart()
        run.say(policy_record(_policy("owner", thresholds="{cpu: 1}")))
        assert len({each.kind.key for each in run.state.placement.pending}) == 2
        if turn:
            run.restart()
        run.say(tick(60 * 22), tick(60 * 23))
        run.say(policy_record(_policy("fleet", thresholds="{cpu: 1}")))
        assert len({each.kind.key for each in run.state.placement.pending}) == 1
        run.say(tick(60 * 24))
    assert runs[0].outputs == runs[1].outputs
    assert sorted(runs[0].stored()) == sorted(runs[1].stored())


def test_a_policy_that_groups_many_pods_anew_counts_the_first_ones_at_the_next_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = "streams.placement.placement._REGROUPED_BESIDES_MAX"
    for most, left in ((2, False), (1, True)):
        monkeypatch.setattr(limit, most)
        runs = [_run(_policy("requests", thresholds="{cpu: 1}")) for _ in range(2)]
        for turn, run in enumerate(runs):
            run.say(
                request(owned_pod("heavy", 11, cpu="1500m")),
                request(owned_pod("light", 0, cpu="1500m")),
            )
            run.say(policy_record(_policy("owner", thresholds="{cpu: 1}")))
            assert run.state.inventory.recounting.under_way == left
            if turn:
                run.restart()
            run.say(tick(60 * 22))
            assert not run.state.inventory.recounting.under_way
        assert runs[0].outputs == runs[1].outputs
        assert sorted(runs[0].stored()) == sorted(runs[1].stored())


def _hold_room(run: Run, replaced: Pod) -> Pod:
    """Room for the replacement of a pod, on node-2."""
    row = MigrationRow(
        migration_id="m-12345678",
        cluster="west1",
        pod=PodRef(namespace=replaced.namespace, name=replaced.name, uid=replaced.uid),
        source_node="node-1",
        mode="ReservationFirst",
        phase="Running",
        trigger="rebalance",
        created_at_ms=at(0),
        changed_at_ms=at(0),
        sequence=0,
        ttl_ms=1,
        deadline_ms=at(60 * 90),
    )
    return run.state.migrations.lifecycle.held_room.hold(replaced, row, "node-2", at(0))


@pytest.mark.parametrize(("by", "expected"), [("fleet", 542), ("owner", 876)])
def test_room_for_a_replacement_is_estimated_by_the_owner_of_the_pod_that_it_replaces(
    by: str, expected: int
) -> None:
    run = _run(_policy(by))
    assert _hold_room(run, owned_pod("new", 11)).owners == ()
    assert _load(run).delta[0] == pytest.approx(expected, abs=6)
    run.say(tick(60 * 22))
    run.restart()
    assert _load(run).delta[0] == pytest.approx(expected, abs=6)
    # No pod of Kubernetes can say so of itself.
    posing = pod(
        "posing", cpu="1", annotations={USAGE_OWNER_ANNOTATION: "default/StatefulSet/set-0"}
    )
    assert owner_of(posing) is None
    assert owner_of(_hold_room(run, posing)) is None


def test_room_for_a_replacement_has_no_more_annotations_than_a_pod_may_have() -> None:
    many = {f"note-{number}": "" for number in range(STRING_MAP_MAX)}
    run = _run(_policy("owner"))
    held = _hold_room(run, owned_pod("new", 11).model_copy(update={"annotations": many}))
    expected = _load(run).delta
    assert expected[0] == pytest.approx(542, abs=6)
    run.say(tick(60 * 22))
    run.restart()
    assert held.uid in run.state.inventory.nodes["node-2"].held
    assert _load(run).delta == expected


@pytest.mark.parametrize("by", ["fleet", "owner"])
def test_a_restart_changes_no_estimate(by: str) -> None:
    steady, restarted = _run(_policy(by, 30)), _run(_policy(by, 30))
    for turn, run in enumerate((steady, restarted)):
        run.say(lifecycle("bound", owned_pod("new", 3), "node-2"))
        if turn:
            run.restart()
        for minute in (25, 30, 35):
            _measure(run, minute, cpu=10 * minute)
        if turn:
            run.restart()
        run.say(tick(60 * 36), request(owned_pod("a", 4)), request(owned_pod("b", 9)))
    for name in ("node-1", "node-2"):
        assert _load(steady, name).delta == _load(restarted, name).delta
        assert _load(steady, name).prod_delta == _load(restarted, name).prod_delta
        assert _load(steady, name).estimated == _load(restarted, name).estimated
    assert steady.outputs == restarted.outputs


def test_rounds_see_the_estimates_of_a_policy_that_has_other_profiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One node at each record.
    monkeypatch.setattr("streams.inventory.moments.SUMMED_PER_RECORD_MAX", 1)
    names = [f"node-{number}" for number in range(4)]
    pending = []
    for restarts in (False, True):
        run = Run()
        run.say(tick(0), policy_record(_policy("fleet")))
        for name in names:
            run.say(node(name), metric(name), lifecycle("bound", pod(f"on-{name}", cpu="1"), name))
        run.say(*(tick(second) for second in range(1, 8)))
        balancer = run.state.rebalancer.balancer
        balancer.refresh()
        assert balancer.columns.pending[0].tolist() == [850] * 4
        others = "{usagePriorPercent: 30, resources: [{name: cpu}, {name: memory}]}"
        run.say(policy_record(_policy("fleet").replace("{resources: [{name: cpu}]}", others)))
        if restarts:
            run.restart()
        run.state.rebalancer.balancer.refresh()
        pending.append(run.state.rebalancer.balancer.columns.pending.tolist())
    assert pending[0] == pending[1]
    assert pending[0][0] == [300] * 4


def test_the_score_by_risk_goes_by_owners_only_where_it_is_told_to() -> None:
    text = _policy("owner").replace("[LoadAwareScheduling]", "[OverutilizationRisk]")
    means = []
    for owner in (0, 11):
        run = _run(text)
        run.say(lifecycle("bound", owned_pod("new", owner), "node-2"))
        moments = run.state.inventory.nodes["node-2"].moments
        assert moments is not None
        means.append(moments.figures()[0][0])
    assert means[0] == means[1]


def test_what_was_used_lately_is_kept_only_where_nodes_are_judged_by_risk() -> None:
    by_risk = _policy("fleet").replace("[LoadAwareScheduling]", "[OverutilizationRisk]")
    alone = _policy("fleet").replace(
        "{score: [LoadAwareScheduling]}", "{score: [LoadAwareScheduling], balance: []}"
    )
    run = _run(by_risk)
    moments = run.state.inventory.nodes["node-1"].moments
    assert moments is not None
    assert moments.lives.recents
    lives = dict(moments.lives.of)
    run.say(policy_record(alone))
    assert (moments.lives.recents, moments.lives.of) == ({}, lives)
    _measure(run, 25)
    run.restart()
    moments = run.state.inventory.nodes["node-1"].moments
    assert moments is not None
    assert not moments.lives.recents
    run.say(policy_record(by_risk))
    _measure(run, 30)
    assert moments.lives.recents
