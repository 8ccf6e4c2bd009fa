"""Load-aware filter and score with estimates by what the pods of the cluster use (`estimateBy`)."""

import pytest

from schemas.decisions import PlacementDecision
from schemas.migrations import MigrationRow
from schemas.pods import Pod, PodRef
from streams.inventory.load import NodeLoad
from tests.streams.cluster.builders import (
    at,
    controlled_by,
    lifecycle,
    metric,
    node,
    pod,
    pod_metric,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Run, only

#: Millicores that measured pods use, by uid; each requests 1000.
_USE = {f"pod-{number:02}": 80 * (number % 12) for number in range(60)}


def _policy(by: str, margin: int = 0, thresholds: str = "{cpu: 50}") -> str:
    return (
        "plugins: {score: [LoadAwareScheduling]}\noverutilizationRisk: {resources: [{name: cpu}]}\n"
        f"loadAware: {{usageThresholds: {thresholds}, estimateBy: {by}, "
        f"estimateMarginPercent: {margin}}}\n"
    )


def _measure(run: Run, minute: int, cpu: int | None = None) -> None:
    run.say(tick(60 * minute))
    pods = tuple(
        pod_metric(uid, cpu=used if cpu is None else cpu, memory=0) for uid, used in _USE.items()
    )
    run.say(metric(cpu=24_000, seconds=60 * minute, pods=pods))
    run.say(metric("node-2", cpu=0, seconds=60 * minute))


def _run(policy: str) -> Run:
    run = Run()
    run.say(tick(0), policy_record(policy), node(cpu="100"), node("node-2", cpu="2"))
    for uid in _USE:
        run.say(lifecycle("bound", pod(uid, cpu="1"), "node-1"))
    for minute in (5, 10, 15, 20):
        _measure(run, minute)
    run.say(tick(60 * 21))
    return run


def _load(run: Run, name: str = "node-2") -> NodeLoad:
    return run.state.inventory.nodes[name].load


def _decide(run: Run, of: Pod) -> PlacementDecision:
    return only(run.say(request(of)))


@pytest.mark.parametrize(("by", "expected"), [("requests", 850), ("fleet", 542)])
def test_a_pod_is_estimated_by_its_request_or_by_what_the_pods_of_the_cluster_use(
    by: str, expected: int
) -> None:
    run = _run(_policy(by))
    run.say(lifecycle("bound", pod("new", cpu="1"), "node-2"))
    assert _load(run).delta[0] == pytest.approx(expected, abs=6)
    run.say(lifecycle("deleted", pod("new", cpu="1")))
    assert _load(run).delta == (0, 0)


def test_a_resource_whose_usage_is_not_learned_is_estimated_by_requests() -> None:
    run = _run(_policy("fleet"))
    run.say(lifecycle("bound", pod("new", memory="1Gi"), "node-2"))
    assert _load(run).delta[1] == 751_619_277
    estimate = _decide(run, pod("next", memory="1Gi")).fleet_estimate
    assert estimate is not None
    assert "memory" not in estimate


def test_a_margin_is_part_of_the_deviation() -> None:
    estimates = []
    for margin in (0, 50, 100):
        run = _run(_policy("fleet", margin))
        run.say(lifecycle("bound", pod("new", cpu="1"), "node-2"))
        estimates.append(_load(run).delta[0])
    mean, some, whole = estimates
    fleet = run.state.inventory.moments.fleet
    assert fleet is not None
    (figures,) = fleet.figures
    deviation = (figures.variance_ppm + figures.spread_ppm) ** 0.5
    assert whole - mean == pytest.approx(deviation, abs=2)
    assert some - mean == pytest.approx(deviation / 2, abs=2)


def test_an_estimate_follows_the_figures_and_is_forgotten_once_the_pod_is_measured() -> None:
    run = _run(_policy("fleet"))
    run.say(lifecycle("bound", pod("new", cpu="1"), "node-2"))
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
    # The metric does not know it any more: it is estimated, by the figures as they are by now.
    for minute in (45, 50, 55, 60, 65):
        _measure(run, minute, cpu=0)
    run.say(tick(60 * 66))
    assert _load(run).delta == _load(run).estimated
    assert 0 < _load(run).delta[0] < 5 * before


def test_a_decision_names_its_estimate() -> None:
    run = _run(_policy("fleet"))
    estimate = _decide(run, pod("b", cpu="1")).fleet_estimate
    assert estimate is not None
    assert estimate["cpu"] == pytest.approx(542, abs=6)
    refused = _decide(run, pod("c", cpu="99"))
    assert refused.outcome == "waiting"
    assert refused.fleet_estimate is not None
    amount = refused.fleet_estimate["cpu"]
    assert refused.message.endswith(
        f"(the pod is expected to use {amount}m of cpu, by what pods of the cluster use)"
    )
    assert _decide(_run(_policy("requests")), pod("a", cpu="1")).fleet_estimate is None


@pytest.mark.parametrize("scored", [False, True])
def test_of_a_daemon_it_is_said_only_where_the_score_goes_by_load(scored: bool) -> None:
    by = _policy("fleet") if scored else "loadAware: {estimateBy: fleet}"
    run = Run()
    run.say(tick(0), policy_record(by), node())
    daemon = pod("d", owners=controlled_by("set", "DaemonSet"))
    assert (only(run.say(request(daemon))).fleet_estimate is not None) is scored
    assert only(run.say(request())).fleet_estimate is not None


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


def test_room_for_a_replacement_is_estimated_as_a_pod() -> None:
    run = _run(_policy("fleet"))
    assert _hold_room(run, pod("new", cpu="1", owners=controlled_by("web"))).owners == ()
    assert _load(run).delta[0] == pytest.approx(542, abs=6)
    run.say(tick(60 * 22))
    run.restart()
    assert _load(run).delta[0] == pytest.approx(542, abs=6)


def test_a_restart_changes_no_estimate() -> None:
    steady, restarted = _run(_policy("fleet", 30)), _run(_policy("fleet", 30))
    for turn, run in enumerate((steady, restarted)):
        run.say(lifecycle("bound", pod("new", cpu="1"), "node-2"))
        if turn:
            run.restart()
        for minute in (25, 30, 35):
            _measure(run, minute, cpu=10 * minute)
        if turn:
            run.restart()
        run.say(tick(60 * 36), request(pod("a", cpu="1")), request(pod("b", cpu="1")))
    for name in ("node-1", "node-2"):
        assert _load(steady, name).delta == _load(restarted, name).delta
        assert _load(steady, name).prod_delta == _load(restarted, name).prod_delta
        assert _load(steady, name).estimated == _load(restarted, name).estimated
    assert steady.outputs == restarted.outputs


def test_rounds_see_the_estimates_of_a_policy_that_learns_of_other_resources(
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
