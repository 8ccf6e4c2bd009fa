"""The second act: evictions are carried out, and the figures are those of the act."""

from dataclasses import replace
from typing import Any

import pytest

from schemas.messages.decisions import AsOf
from schemas.messages.evictions import EvictionCommand
from schemas.messages.pods import Pod, PodRef
from schemas.messages.policies import PolicyRecord
from schemas.messages.rounds import HotNode, PoolRound, Reading, RebalanceRound
from schemas.policy import read_policy
from simulation.cluster.cluster import Eviction
from simulation.demo.rebalance_summary import hot_nodes, rebalanced, usage_staying
from simulation.demo.relief import Relief, hot_above
from simulation.demo.scenario import CLUSTER, simulated_scenario
from simulation.demo.session import Session
from tests.simulation.demo.inmemory import InMemoryWorker

AS_OF = AsOf(partition=0, offsets={}, policy_digest="")
NOW_MS = 1_772_409_600_000
MINUTE_MS = 60_000


def a_round(*nodes: str, gate: str = "", node_gate: str = "") -> RebalanceRound:
    """A round that names these nodes."""
    reading = Reading(used=80, limit=70, capacity=100)
    hot = tuple(
        HotNode(
            node=node, phase="node", readings={"cpu": reading}, abnormal_rounds=1, gate=node_gate
        )
        for node in nodes
    )
    pools = () if gate else (PoolRound(pool="p", hot=hot),)
    return RebalanceRound(
        round_id="round-0001", cluster=CLUSTER, decided_at_ms=NOW_MS, dry_run=False, gate=gate,
        pools=pools, as_of=AS_OF,
    )  # fmt: skip


def used(relief: Relief, number: int, **shares: float) -> None:
    """One bin of ten minutes in which nodes used these shares of their cores."""
    begin_ms = NOW_MS + number * 10 * MINUTE_MS
    for node, share in shares.items():
        relief.used(node, share, begin_ms, begin_ms + 10 * MINUTE_MS)


def a_command(number: int, uid: str, node: str, at_ms: int, **more: Any) -> EvictionCommand:
    values: dict[str, Any] = {
        "command_id": f"command-{number}", "cluster": CLUSTER, "node": node, "reason": "hot",
        "pod": PodRef(namespace="residents", name=uid, uid=uid), "dry_run": False,
        "decided_at_ms": at_ms, "expires_at_ms": at_ms + 60 * MINUTE_MS, "as_of": AS_OF,
    }  # fmt: skip
    return EvictionCommand(**(values | more))


def test_a_node_is_hot_from_the_first_bin_above_the_share_to_the_first_that_is_not() -> None:
    relief = Relief(0.7)
    used(relief, 0, n1=0.8, n2=0.7)
    used(relief, 1, n1=0.9, n2=0.71)
    pod = Pod(namespace="a", name="a", uid="a")
    relief.evicted(Eviction(pod, "n1", NOW_MS + 12 * MINUTE_MS, None))
    assert (relief.hot["n1"].used, relief.hot["n2"].used) == (0.9, 0.71)
    used(relief, 2, n1=0.7, n2=0.75)
    used(relief, 3, n1=0.1, n2=0.2)
    first, second = relief.spells
    assert (first.node, first.since_ms, first.until_ms) == ("n1", NOW_MS, NOW_MS + 20 * MINUTE_MS)
    assert (first.left, second.left) == (1, 0)
    assert relief.hot == {}
    assert [(each.what, each.node) for each in relief.happenings] == [
        ("hot", "n1"), ("hot", "n2"), ("left", "n1"), ("cool", "n1"), ("cool", "n2"),
    ]  # fmt: skip
    assert [each.text for each in relief.happenings] == [
        "n1 turns hot: cpu 80 % of at most 70 %", "n2 turns hot: cpu 71 % of at most 70 %",
        "a leaves n1", "n1 has cooled after 1 pod left it, 20 min hot",
        "n2 has cooled by itself, 20 min hot",
    ]  # fmt: skip


def test_a_node_that_is_not_measured_is_not_hot() -> None:
    relief = Relief(0.7)
    used(relief, 0, n1=0.8)
    used(relief, 1, n1=float("nan"))
    assert relief.hot == {}
    assert relief.spells[0].until_ms == NOW_MS + 10 * MINUTE_MS


def test_hot_is_what_moves_by_thresholds_call_so_or_moves_by_risk() -> None:
    scenario = simulated_scenario(3, 1, 4)
    above = scenario.policy_text.replace(
        "\nrebalance:\n", "\nrebalance:\n  highThresholds: {cpu: 60}\n  lowThresholds: {cpu: 40}\n"
    )
    by_memory = scenario.policy_text.replace("- {name: cpu, hotPercent: 70}", "")
    found = [
        hot_above(replace(scenario, policy_text=text).policy)
        for text in (scenario.policy_text, above, by_memory)
    ]
    assert found == [0.70, 0.60, 1.0]


def test_the_live_view_and_the_summary_count_the_same_hot_minutes(finished: Session) -> None:
    end_ms = finished.scenario.end_ms
    told_ms = sum((spell.until_ms or end_ms) - spell.since_ms for spell in finished.relief.spells)
    counted = float(hot_nodes(finished, finished.grid).sum())
    assert counted > 0
    assert told_ms == pytest.approx(counted * finished.grid.bin_ms, rel=1e-3)


def test_what_keeps_a_hot_node_is_what_the_newest_round_says_of_it() -> None:
    relief = Relief(0.7)
    assert relief.gate("n1") == ""
    relief.round(a_round("n1", node_gate="its turn"))
    assert (relief.gate("n1"), relief.gate("n2")) == ("its turn", "")
    relief.round(a_round(gate="paused"))
    assert relief.gate("n1") == "paused"


def test_dry_commands_are_counted_apart() -> None:
    relief = Relief(0.7)
    relief.command(a_command(1, "a", "n1", NOW_MS, dry_run=True))
    relief.command(a_command(2, "a", "n1", NOW_MS))
    assert (relief.commands, relief.dry_commands) == (1, 1)
    assert list(relief.happenings) == [], "the node is not hot"


def test_the_second_act_begins_with_a_policy_that_enforces_and_is_the_same_otherwise(
    worker: InMemoryWorker,
) -> None:
    first, second = worker.sent["policies"]
    assert isinstance(first, PolicyRecord)
    one, two = read_policy(first.document), read_policy(second.document)
    assert (one.mode, two.mode) == ("observe", "enforce")
    assert one.model_copy(update={"mode": "enforce"}) == two
    assert second.applied_at_ms == worker.session.enforced_ms
    assert worker.session.enforced_ms == pytest.approx(
        worker.session.scenario.enforce_ms, abs=200_000
    )


def test_of_the_dry_commands_of_a_hot_node_the_first_is_shown() -> None:
    relief = Relief(0.7)
    used(relief, 0, n1=0.8)
    for number in range(3):
        relief.command(a_command(number, "a", "n1", NOW_MS, dry_run=True))
    assert relief.dry_commands == 3
    assert [each.what for each in relief.happenings] == ["hot", "dry"]


@pytest.fixture(scope="module")
def relieved() -> Session:
    """A run in which a test evicts two pods of a hot node, beside what the worker does."""
    scenario = simulated_scenario(12, 3, 4)
    worker = InMemoryWorker(scenario)
    session = worker.run(scenario.enforce_ms + 5 * MINUTE_MS)
    hot = next(machine for machine in scenario.machines if machine.temper == "hot")
    there = [pod for pod in session.cluster.kubelets.pods_on(hot.name) if pod.plan.carried][-2:]
    for number, pod in enumerate(there):
        session.receive(a_command(number, pod.pod.uid, hot.name, session.now_ms))
        while session.now_ms < scenario.enforce_ms + (30 + 20 * number) * MINUTE_MS:
            session.advance(session.now_ms + 2 * MINUTE_MS)
            worker.settle()
    while not session.over:
        session.advance(min(scenario.end_ms, session.now_ms + 2 * MINUTE_MS))
        worker.settle()
    return session


@pytest.mark.slow
def test_evicted_pods_come_again_and_take_their_load_to_other_nodes(relieved: Session) -> None:
    assert len(relieved.evictions) >= 2
    for eviction in relieved.evictions:
        assert eviction.replacement is not None
        assert relieved.cluster.kubelets.node_of(eviction.pod.uid) is None
        decision = relieved.observed.outcomes[eviction.replacement.pod.uid]
        assert decision.outcome == "placed"
        assert decision.node != eviction.node
    assert relieved.failures == []
    assert relieved.observed.dead_letters == []
    assert relieved.repeated == []


def test_with_evictions_there_are_fewer_hot_minutes_than_without(relieved: Session) -> None:
    staying = usage_staying(relieved)
    figures = rebalanced(relieved, staying)
    assert figures is not None
    assert figures.evictions == len(relieved.evictions) >= 2
    assert figures.hot_minutes < figures.hot_minutes_staying
    assert figures.placed_again == figures.evictions
    assert figures.repeated == 0
    first = relieved.grid.bin_of(relieved.enforced_ms or 0)
    assert (
        hot_nodes(relieved, relieved.grid)[: first - 1] == hot_nodes(relieved, staying)[: first - 1]
    ).all()


def test_without_evictions_usage_is_the_same_in_the_first_act(finished: Session) -> None:
    staying = usage_staying(finished)
    first = finished.grid.bin_of(finished.enforced_ms or 0)
    known = finished.grid.counts[: first - 1] > 0
    ours, theirs = finished.grid.cpu[: first - 1][known], staying.cpu[: first - 1][known]
    # A pod is bound a step after its reading there, and at the reading here.
    assert abs(ours - theirs).mean() < 0.01
    assert finished.relief.hot_above == 0.70


def test_a_run_that_ends_in_the_first_act_has_no_figures_of_the_second() -> None:
    scenario = simulated_scenario(3, 1, 4)
    session = InMemoryWorker(scenario).run(scenario.begin_ms + 30 * MINUTE_MS)
    assert rebalanced(session, usage_staying(session)) is None
