"""The second act: evictions are carried out, and the figures are those of the act."""

from typing import Any

import pytest

from connectors.demo.rebalance_summary import hot_above, hot_nodes, rebalanced, usage_staying
from connectors.demo.relief import Relief
from connectors.demo.scenario import CLUSTER, simulated_scenario
from connectors.demo.session import Session
from connectors.simulated.cluster import Eviction
from schemas.decisions import AsOf
from schemas.evictions import EvictionCommand
from schemas.moves import MoveOutcome
from schemas.pods import Pod, PodRef
from schemas.policies import PolicyRecord
from schemas.policy import read_policy
from schemas.rounds import HotNode, PoolRound, Reading, RebalanceRound
from tests.connectors.demo.inmemory import InMemoryWorker

AS_OF = AsOf(partition=0, offsets={}, policy_digest="")
NOW_MS = 1_772_409_600_000
MINUTE_MS = 60_000


def a_round(minute: int, *nodes: str, left_out: int = 0, gate: str = "") -> RebalanceRound:
    """A round in which these nodes are hot."""
    hot = tuple(
        HotNode(
            node=node,
            phase="node",
            readings={"cpu": Reading(used=80, limit=70, capacity=100)},
            abnormal_rounds=1,
        )
        for node in nodes
    )
    pools = () if gate else (PoolRound(pool="p", hot=hot, hot_left_out=left_out),)
    return RebalanceRound(
        round_id=f"round-{minute:04}", cluster=CLUSTER, decided_at_ms=NOW_MS + minute * MINUTE_MS,
        dry_run=False, gate=gate, pools=pools, as_of=AS_OF,
    )  # fmt: skip


def a_command(number: int, uid: str, node: str, at_ms: int, **more: Any) -> EvictionCommand:
    values: dict[str, Any] = {
        "command_id": f"command-{number}", "cluster": CLUSTER, "node": node, "reason": "hot",
        "pod": PodRef(namespace="residents", name=uid, uid=uid), "dry_run": False,
        "decided_at_ms": at_ms, "expires_at_ms": at_ms + 60 * MINUTE_MS, "as_of": AS_OF,
    }  # fmt: skip
    return EvictionCommand(**(values | more))


def a_verdict(verdict: Any, **more: Any) -> MoveOutcome:
    values: dict[str, Any] = {
        "command_id": "command-1", "migration_id": "migration-1", "cluster": CLUSTER, "pool": "p",
        "phase": "node", "pod": PodRef(namespace="a", name="b", uid="c"), "owner": "o",
        "source_node": "n1", "dry_run": False, "verdict": verdict, "message": "m",
        "evicted_at_ms": NOW_MS, "judged_at_ms": NOW_MS, "as_of": AS_OF,
    }  # fmt: skip
    return MoveOutcome(**(values | more))


def test_a_node_is_hot_from_the_first_round_that_names_it_to_the_first_that_does_not() -> None:
    relief = Relief()
    relief.round(a_round(0, "n1"))
    relief.round(a_round(10, "n1", "n2"))
    pod = Pod(namespace="a", name="a", uid="a")
    relief.evicted(Eviction(pod, "n1", NOW_MS + 12 * MINUTE_MS, None))
    relief.round(a_round(20, "n2"))
    relief.round(a_round(30))
    first, second = relief.spells
    assert (first.node, first.since_ms, first.until_ms) == ("n1", NOW_MS, NOW_MS + 20 * MINUTE_MS)
    assert (first.left, second.left) == (1, 0)
    assert relief.hot == {}
    assert [(each.what, each.node) for each in relief.happenings] == [
        ("hot", "n1"), ("left", "n1"), ("hot", "n2"), ("cool", "n1"), ("cool", "n2"),
    ]  # fmt: skip
    assert relief.happenings[3].text == "n1 has cooled after 1 pod left it, 20 min hot"
    assert relief.happenings[4].text == "n2 has cooled by itself, 20 min hot"


def test_a_node_whose_load_no_eviction_moves_is_left_out() -> None:
    relief = Relief(left_out="n1")
    relief.round(a_round(0, "n1", "n2"))
    relief.round(a_round(10, "n1", "n2"))
    assert list(relief.hot) == ["n2"]
    assert [spell.node for spell in relief.spells] == ["n2"]


def test_a_node_that_is_hot_in_one_round_alone_is_not_told() -> None:
    relief = Relief()
    relief.round(a_round(0, "n1"))
    relief.round(a_round(10))
    assert relief.spells == []
    assert list(relief.happenings) == []


def test_a_round_that_was_stopped_or_leaves_nodes_out_cools_nobody() -> None:
    relief = Relief()
    relief.round(a_round(0, "n1"))
    relief.round(a_round(10, gate="paused"))
    relief.round(a_round(20, "n2", left_out=1))
    assert set(relief.hot) == {"n1", "n2"}


def test_dry_commands_and_dry_verdicts_are_counted_apart() -> None:
    relief = Relief()
    relief.command(a_command(1, "a", "n1", NOW_MS, dry_run=True))
    relief.command(a_command(2, "a", "n1", NOW_MS))
    relief.outcome(a_verdict("helped"))
    relief.outcome(a_verdict("dry", dry_run=True))
    assert (relief.commands, relief.dry_commands) == (1, 1)
    assert list(relief.happenings) == [], "the node is not hot"
    assert dict(relief.verdicts) == {"helped": 1}
    assert dict(relief.dry_verdicts) == {"dry": 1}


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
    relief = Relief()
    relief.round(a_round(0, "n1"))
    for number in range(3):
        relief.command(a_command(number, "a", "n1", NOW_MS, dry_run=True))
    assert relief.dry_commands == 3
    assert [each.what for each in relief.happenings] == ["dry"]


def test_a_verdict_on_a_command_that_was_not_carried_out_does_not_count() -> None:
    session = Session(simulated_scenario(3, 1, 10, "not here"), lambda topic, message: None, 2)
    session.begin()
    session.receive(a_command(1, "gone", "node-01", session.now_ms), 0, 0.0)
    session.receive(a_verdict("helped"), 0, 0.0)
    assert dict(session.relief.verdicts) == {}
    session.receive(a_command(2, "resident-node-01-1", "node-01", session.now_ms), 0, 0.0)
    session.receive(a_verdict("helped", command_id="command-2"), 0, 0.0)
    assert dict(session.relief.verdicts) == {"helped": 1}


@pytest.fixture(scope="module")
def relieved() -> Session:
    """A run in which a test evicts two pods of a hot node, beside what the worker does."""
    scenario = simulated_scenario(12, 3, 10, "not here")
    worker = InMemoryWorker(scenario)
    session = worker.run(scenario.enforce_ms + 5 * MINUTE_MS)
    hot = next(machine for machine in scenario.machines if machine.temper == "hot")
    there = [pod for pod in session.cluster.kubelets.pods_on(hot.name) if pod.plan.carried][-2:]
    for number, pod in enumerate(there):
        session.receive(a_command(number, pod.pod.uid, hot.name, session.now_ms), 0, 0.0)
        while session.now_ms < scenario.enforce_ms + (30 + 20 * number) * MINUTE_MS:
            session.advance(session.now_ms + 2 * MINUTE_MS, 0.0)
            worker.settle(0.01)
    while not session.over:
        session.advance(min(scenario.end_ms, session.now_ms + 2 * MINUTE_MS), 0.0)
        worker.settle(0.01)
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
    assert hot_above(finished) == 0.70


def test_a_run_that_ends_in_the_first_act_has_no_figures_of_the_second() -> None:
    scenario = simulated_scenario(3, 1, 10, "not here")
    session = InMemoryWorker(scenario).run(scenario.begin_ms + 30 * MINUTE_MS)
    assert rebalanced(session, usage_staying(session)) is None
