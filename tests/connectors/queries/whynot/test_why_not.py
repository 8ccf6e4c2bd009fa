"""Answers of `loadstream cluster why-not` from the records of a few rounds."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from connectors.kafka.cluster_records import SearchProgress
from connectors.process import wall_clock
from connectors.queries.whynot import reading
from connectors.queries.whynot.cluster import explain_cluster
from connectors.queries.whynot.evidence import Answer, Evidence
from connectors.queries.whynot.node import explain_node
from connectors.queries.whynot.pod import explain_pod
from loadstream.commands import app
from schemas.base.message import Message
from schemas.messages.decisions import AsOf, PlacementDecision
from schemas.messages.metrics import NodeMetric, PodMetric
from schemas.messages.migrations import DisruptionBudgetRow, DrainStatus, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.nodes import NodeState
from schemas.messages.objects import DisruptionBudget
from schemas.messages.pods import Pod, PodLifecycle, PodRef
from schemas.messages.policies import PolicyRecord
from schemas.messages.rounds import (
    HotNode,
    PodVerdict,
    PoolRound,
    Reading,
    RebalanceRound,
    ThresholdsInForce,
)
from schemas.topics.catalog import TOPIC_OF
from schemas.topics.partitions import partition_for
from streams.migration.limits.budgets import describe_budget
from streams.migration.limits.workloads import Replicas
from tests.conftest import RunningBroker
from tests.connectors.queries.recorded import Recorded

NOW_MS = 1_795_000_000_000
MINUTE_MS = 60_000
#: The time of the query: half a minute after the last round of the story.
ASKED_MS = NOW_MS + 7 * MINUTE_MS + 30_000
AS_OF = AsOf(partition=0, offsets={"clock": 7}, policy_digest="default")
WEB = PodRef(namespace="shop", name="web-1", uid="u1")
API = PodRef(namespace="shop", name="api-1", uid="u2")
#: Gates with their messages.
REPLICAS = Replicas("u9", "ReplicaSet shop/web", 9, inferred=False)
BUDGET = describe_budget(
    DisruptionBudgetRow(
        cluster="blue",
        state=DisruptionBudget(
            cluster="blue", namespace="shop", name="web", current_healthy=8, desired_healthy=8,
            expected_pods=9,
        ),
    )
)  # fmt: skip
PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "why-not.md"
#: Clusters; the first two share a partition if there are four.
BLUE = "blue"
NEIGHBOUR = next(
    name
    for name in (f"other-{number}" for number in range(100))
    if partition_for(name.encode(), 4) == partition_for(BLUE.encode(), 4)
)


def waiting_decision(pod: PodRef = WEB) -> PlacementDecision:
    """Return the decision of a pod that waits."""
    return PlacementDecision(
        decision_id="decision-1", cluster=BLUE, pod=pod, outcome="waiting", message="3 nodes full",
        decided_at_ms=NOW_MS, as_of=AS_OF,
    )  # fmt: skip


def metric_of_web() -> NodeMetric:
    """Return a metric of node n1 with this usage of web-1."""
    pods = (PodMetric(namespace="shop", name="web-1", usage={"cpu": 1}),)
    return NodeMetric(cluster=BLUE, node="n1", updated_at_ms=NOW_MS, usage={"cpu": 1}, pods=pods)


def command(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["cluster", "why-not", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def evidence(
    *messages: Message, now_ms: int = ASKED_MS, policy: PolicyRecord | None = None, **question: Any
) -> Evidence:
    """Return the evidence from messages in order, the oldest first."""

    def newest(topic: str, looked: SearchProgress | None = None) -> Iterator[Message]:
        looked = looked or SearchProgress()
        for message in reversed(messages):
            if TOPIC_OF[type(message)] == topic:
                looked.records += 1
                yield message
        looked.whole = True

    evidence = Evidence(BLUE, now_ms, ASKED_MS - 1_000)
    if policy is not None:
        reading.set_policy(evidence, policy)
    reading.read_records(evidence, newest, **question)
    return evidence


def read(evidence: Evidence, answer: Answer) -> str:
    return "\n".join((*evidence.warnings(), *answer.sentences))


def ask(*messages: Message, **fields: Any) -> str:
    collected = evidence(*messages, **fields)
    return read(collected, explain_cluster(collected))


def ask_node(*messages: Message, **fields: Any) -> str:
    collected = evidence(*messages, node="n1", **fields)
    return read(collected, explain_node(collected, "n1"))


def answer_pod(*messages: Message, name: str = "web-1") -> Answer:
    return explain_pod(evidence(*messages, pod=("shop", name)), "shop", name)


def ask_pod(*messages: Message) -> str:
    collected = evidence(*messages, pod=("shop", "web-1"))
    return read(collected, explain_pod(collected, "shop", "web-1"))


def round_at(number: int, *hot: HotNode, cluster: str = BLUE, **more: Any) -> RebalanceRound:
    """Return a round `number` minutes after the first round."""
    leaving = sum(node.leaving for node in hot)
    pool = PoolRound(
        pool="web",
        nodes={"low": 2, "normal": 5, "high": len(hot), "skipped": 1},
        thresholds=ThresholdsInForce(low={"cpu": 45.0}, high={"cpu": 70.0}, source="policy"),
        rounds_needed=3,
        wanted=sum(len(node.pods) for node in hot),
        leaving=leaving,
        hot=hot,
        **more,
    )
    return RebalanceRound(
        round_id=f"round-{number:04}",
        cluster=cluster,
        decided_at_ms=NOW_MS + number * MINUTE_MS,
        dry_run=False,
        pools=(pool,),
        as_of=AS_OF,
    )


def hot_node(rounds: int, *pods: PodVerdict, node: str = "n1", **more: Any) -> HotNode:
    return HotNode(
        node=node,
        phase="node",
        readings={"cpu": Reading(used=12_800, limit=11_200, capacity=16_000)},
        abnormal_rounds=rounds,
        pods=pods,
        leaving=sum(not pod.gate for pod in pods),
        **more,
    )


def stopped(pod: PodRef, gate: str) -> PodVerdict:
    return PodVerdict(pod=pod, gate=gate, usage={"cpu": 900})


def story() -> list[RebalanceRound]:
    """Node n1 becomes hot: first not for long enough, then a budget stops its pod."""
    rounds = [round_at(0)]
    rounds += [round_at(n, hot_node(n, gate=f"hot for {n} of 3 rounds in a row")) for n in (1, 2)]
    rounds += [
        round_at(
            n,
            hot_node(n, stopped(WEB, f"{n} migrations of {REPLICAS} are under way; 3 may be")),
        )
        for n in (3, 4, 5)
    ]
    leaving = PodVerdict(pod=API, target="n7", migration_id="migration-1")
    budget = stopped(WEB, BUDGET)
    return [
        *rounds,
        round_at(6, hot_node(6, budget, leaving)),
        round_at(7, hot_node(7, budget)),
    ]


def test_the_same_round_published_twice_counts_once() -> None:
    assert len(evidence(round_at(0), round_at(1), round_at(0), round_at(1)).rounds) == 2


def test_rounds_are_read_back_to_the_requested_time() -> None:
    rounds = [round_at(number) for number in range(90)]
    assert len(evidence(*rounds).rounds) == 61
    assert len(evidence(*rounds, back_ms=5 * MINUTE_MS).rounds) == 6


def test_the_answer_says_that_no_node_could_be_judged() -> None:
    blind = PoolRound(pool="web", nodes={"skipped": 3})
    rounds = [round_at(number).model_copy(update={"pools": (blind,)}) for number in range(2)]
    assert "none has a fresh and complete metric" in ask(*rounds)
    assert "nothing to evict" not in ask(*rounds)
    assert "nothing to evict" in ask(*rounds, round_at(2))


def test_the_answer_says_that_older_rounds_were_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [round_at(number) for number in range(9)]
    monkeypatch.setattr(reading, "ROUNDS_MAX", 4)
    (warning,) = evidence(*rounds).warnings()
    assert "newest 4 rounds" in warning
    assert "2026-11-18 11:11:40.000" in warning
    assert not evidence(*rounds, back_ms=2 * MINUTE_MS).is_cut_off
    monkeypatch.setattr(reading, "ROUNDS_MAX", 10)
    assert not evidence(*rounds).is_cut_off


def test_the_answer_for_a_hot_node_gives_its_readings_thresholds_rounds_and_gate() -> None:
    text = ask_node(*story()[:3])
    for part in (
        "LowNodeLoad in pool web", "cpu 12.8 of 16 (80.0 %, at most 70.0 %)", "cpu 45 %", "cpu 70 %",
        "hot for 2 rounds in a row; 3 are needed", "hot for 2 of 3 rounds in a row",
    ):  # fmt: skip
        assert part in text


def node_state(cpu: str = "16", **fields: Any) -> NodeState:
    return NodeState(
        cluster=BLUE, node="n1", event="added", **{"allocatable": {"cpu": cpu}, **fields}
    )


def measured(cpu: int, at_ms: int = NOW_MS) -> NodeMetric:
    return NodeMetric(cluster=BLUE, node="n1", updated_at_ms=at_ms, usage={"cpu": cpu})


def test_the_answer_for_a_cooled_node_has_its_last_hot_round_and_current_usage() -> None:
    text = ask_node(*story(), round_at(8), round_at(9), node_state(), measured(4_000))
    for part in (
        "n1 is unknown: its metric is 7m30s old, at most 3m",
        "last hot at 2026-11-18 11:13:40.000 (30s ago), 2 rounds before the newest",
        "cpu 4, of its capacity cpu 25.0 %",
        "1 node of pool web",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("newest", "text"),
    [
        (
            {"updated_at_ms": ASKED_MS - 12 * MINUTE_MS, "usage": {"cpu": 1}, "source": "kubelet"},
            "(12m ago), measured by kubelet",
        ),
        ({"removed": True, "source": "kubelet"}, "its source kubelet no longer"),
        ({"removed": True}, "its metric was removed"),
        ({"usage": {"cpu": 4_000}}, "its newest metric does not say when it was measured"),
        ({"updated_at_ms": NOW_MS}, "its newest metric has no figures"),
        (None, "no metric of it was found"),
    ],
)
def test_the_answer_for_a_node_gives_the_source_of_its_usage_or_why_that_is_unknown(
    newest: dict[str, Any] | None, text: str
) -> None:
    metric = {"cluster": BLUE, "node": "n1"}
    metrics = [] if newest is None else [NodeMetric.model_validate(metric | newest)]
    answer = ask_node(round_at(0), node_state(), *metrics)
    assert text in answer
    assert "n1 is unknown" in answer


def test_the_answer_for_a_drained_node_gives_its_drain_and_its_migrations() -> None:
    drain = DrainStatus(
        cluster=BLUE, node="n1", phase="Draining", pods_left=2, pods_protected=0,
        request_id="request-1", happened_at_ms=NOW_MS, as_of=AS_OF,
    )  # fmt: skip
    text = ask_node(round_at(0), drain, migration("Running", 1))
    assert "node n1 draining: 2 pods left, 0 protected" in text
    assert "migration migration-1 of pod shop/web-1 from n1: Running" in text


@pytest.mark.parametrize("ask", [ask, ask_node])
def test_a_pool_without_thresholds_is_left_out_where_another_strategy_judges_its_nodes(
    ask: Callable[..., str],
) -> None:
    unjudged = PoolRound(
        pool="__default_node_pool__",
        nodes={"normal": 2},
        thresholds=ThresholdsInForce(source="policy"),
        gate="the pool has no thresholds",
    )
    by_risk = PoolRound(pool="OverutilizationRisk", nodes={"normal": 2})
    alone = round_at(0).model_copy(update={"pools": (unjudged,)})
    assert "__default_node_pool__" in ask(alone)
    answer = ask(alone, round_at(1).model_copy(update={"pools": (unjudged, by_risk)}))
    assert "OverutilizationRisk" in answer
    assert "__default_node_pool__" not in answer


def migration(phase: Any, minutes: int) -> MigrationStatus:
    return MigrationStatus(
        cluster=BLUE, migration_id="migration-1", pod=WEB, source_node="n1", mode="EvictDirectly",
        phase=phase, message="waits for its turn", trigger="rebalance", dry_run=True,
        deadline_ms=NOW_MS, created_at_ms=NOW_MS, changed_at_ms=NOW_MS,
        happened_at_ms=NOW_MS + minutes * MINUTE_MS, as_of=AS_OF,
    )  # fmt: skip


def test_the_answer_for_a_pod_gives_the_first_gate_that_stopped_it_and_since_when() -> None:
    text = ask_pod(*story()[:6])
    for part in (
        "on node n1, judged by LowNodeLoad in pool web: hot for 5 rounds in a row; 3 are needed",
        "5 migrations of ReplicaSet shop/web with 9 replicas are under way",
        # Another gate stopped it in the rounds before.
        "for 3 rounds, since 2026-11-18 11:09:40.000 (4m 30s ago)",
    ):
        assert part in text


def test_a_pod_moved_by_risk_is_not_reported_as_stopped() -> None:
    gate = "no target could take it without becoming hot"
    by_thresholds = round_at(0, hot_node(3, stopped(WEB, gate), node="n1"))
    leaves = hot_node(0, PodVerdict(pod=WEB, target="n7"), cost=0.4)
    by_risk = PoolRound(pool="OverutilizationRisk", hot=(leaves,))
    both = by_thresholds.model_copy(update={"pools": (*by_thresholds.pools, by_risk)})
    answer = answer_pod(both)
    assert [line.partition(":")[0] for line in answer.sentences[1:]] == [
        "It is on node n1, judged by OverutilizationRisk",
        "It was chosen to leave",
        "It is on node n1, judged by LowNodeLoad in pool web",
        "It was not chosen to leave",
    ]
    verdict = answer.data["verdict"]
    assert (verdict["gate"], verdict["target"]) == ("", "n7")


def test_the_answer_for_a_migrating_pod_has_its_state_and_outcome() -> None:
    move = MoveOutcome(
        command_id="command-1", migration_id="migration-1", cluster=BLUE, pool="web", phase="node",
        pod=WEB, owner="rs-1", source_node="n1", source_hot_before=True, source_hot_after=True,
        evicted_at_ms=NOW_MS, ended_at_ms=NOW_MS + MINUTE_MS, as_of=AS_OF,
    )  # fmt: skip
    text = ask_pod(*story(), migration("Pending", 1), migration("Succeeded", 2), move)
    assert "Succeeded: waits for its turn" in text
    assert "Pending" not in text
    assert "n1 was hot before, hot after; no replacement came" in text


def test_the_answer_for_a_pod_on_a_node_that_is_not_hot_says_so() -> None:
    hot = round_at(0, hot_node(3, node="n2"))
    assert "no record of topic pod-lifecycle names it" in ask_pod(hot, metric_of_web())
    fresh = metric_of_web().model_copy(update={"updated_at_ms": ASKED_MS - MINUTE_MS})
    answer = answer_pod(hot, fresh, seen_pod("running"))
    assert answer.is_known
    assert "It is on node n1, which is not hot" in " ".join(answer.sentences)


def test_the_answer_for_a_pod_that_waits_for_a_node_says_so() -> None:
    text = ask_pod(round_at(0), waiting_decision())
    assert "2026-11-18 11:06:40.000 (7m 30s ago) the decision was waiting: 3 nodes full" in text


def test_an_unknown_pod_is_reported_as_unknown() -> None:
    assert not answer_pod(round_at(0), name="gone-1").is_known


def test_the_answer_for_a_paused_cluster_says_so() -> None:
    record = PolicyRecord(cluster=BLUE, document="", paused=True, applied_at_ms=NOW_MS)
    assert "paused: `loadstream cluster resume`" in ask(policy=record)
    assert "The cluster is paused" in ask(round_at(0), policy=record)


def test_a_silent_worker_is_reported_first() -> None:
    collected = evidence(*story(), now_ms=ASKED_MS + 3 * 60 * MINUTE_MS)
    first, second = read(collected, explain_cluster(collected)).splitlines()[:2]
    assert "No worker has written for 3h" in first
    assert "was at 2026-11-18 11:13:40.000 (3h ago)" in second


def seen_pod(event: Any, uid: str = "u1", node: str | None = "n1") -> PodLifecycle:
    pod = Pod(namespace="shop", name="web-1", uid=uid, node=node)
    return PodLifecycle(cluster=BLUE, event=event, pod=pod)


@pytest.mark.parametrize(
    ("newest", "first", "later"),
    [
        (seen_pod("deleted"), "Pod shop/web-1 no longer exists", "It was on"),
        (seen_pod("running", "u9", "n4"), "Another pod has the name shop/web-1", "It was on"),
        (seen_pod("running", node="n4"), "Pod shop/web-1 has left node n1", "It was on"),
        (seen_pod("running"), "It is on node n1, judged by LowNodeLoad in pool web", "It is on"),
    ],
)
def test_a_pod_that_left_its_node_is_reported_in_the_past(
    newest: PodLifecycle, first: str, later: str
) -> None:
    lines = ask_pod(*story()[:6], newest).splitlines()
    assert lines[1].startswith(first)
    assert next(line for line in lines if " on node n1, judged by" in line).startswith(later)


def test_a_pod_that_is_gone_is_on_no_node() -> None:
    answer = answer_pod(round_at(0), metric_of_web(), seen_pod("finished"))
    text = " ".join(answer.sentences)
    assert answer.is_known
    assert "no longer exists" in text
    assert "It is on node" not in text


@pytest.mark.parametrize("newest", [seen_pod("deleted", "u0"), seen_pod("seen", node=None), None])
def test_a_waiting_pod_is_not_confused_with_an_earlier_pod_of_its_name(
    newest: PodLifecycle | None,
) -> None:
    events = [] if newest is None else [newest]
    text = ask_pod(round_at(0), metric_of_web(), *events, waiting_decision())
    assert "the decision was waiting: 3 nodes full" in text
    assert "It is on node n1" not in text
    assert "no longer exists" not in text


@pytest.mark.parametrize(
    ("minutes", "paused", "why"),
    [
        (0, False, "LowNodeLoad in pool web did not call it hot in the newest round"),
        (3, False, "The metric is newer than the newest round"),
        (0, True, "the cluster is paused"),
    ],
)
def test_a_node_that_is_hot_by_its_metric_and_not_called_hot_is_explained(
    minutes: int, paused: bool, why: str
) -> None:
    document = "rebalance: {nodeMetricExpirationSeconds: 600}"
    policy = PolicyRecord(cluster=BLUE, document=document, applied_at_ms=NOW_MS, paused=paused)
    metric = measured(12_000, NOW_MS + minutes * MINUTE_MS)
    text = ask_node(round_at(0), node_state(), metric, policy=policy)
    assert "of its capacity cpu 75.0 %" in text
    assert "above cpu 70 %" in text
    assert why in text
    assert "do not count" not in text, "no migration is under way"


@pytest.mark.parametrize(
    ("state", "refused"),
    [
        ({"capacity": {"cpu": "16", "memory": "64Gi"}}, "cpu: measured 154000, but the node has 16000"),
        ({"created_at_ms": ASKED_MS}, "it belongs to an earlier node of this name"),
    ],
)  # fmt: skip
def test_a_refused_metric_is_not_shown_as_usage(state: dict[str, Any], refused: str) -> None:
    node = node_state(**state)
    text = ask_node(round_at(0), node, measured(154_000, ASKED_MS - 1))
    assert text.startswith(f"n1 is unknown: its metric was refused, {refused}")
    if "capacity" in state:
        metrics = measured(400, ASKED_MS - MINUTE_MS), measured(154_000, ASKED_MS)
        text = ask_node(round_at(0), node, *metrics)
        assert "it uses cpu 0.4" in text
        assert f"A newer metric was refused: {refused}" in text


@pytest.mark.parametrize(
    "arguments",
    [("--pod", "web-1"), ("--back", "soon"), ("--node", "n1", "--pod", "a/b")],
)
def test_invalid_options_are_errors(arguments: tuple[str, ...]) -> None:
    assert command(BLUE, *arguments).exit_code == 2


# --- on a broker --------------------------------------------------------------------------------


@pytest.fixture
def recorded(embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", embedded.bootstrap_servers)
    monkeypatch.setattr(wall_clock, "now_ms", lambda: ASKED_MS)
    recorded = Recorded(embedded)
    recorded.tick(ASKED_MS - 1_000, BLUE)
    return recorded


def test_the_documentation_shows_the_real_answer_for_a_cluster(recorded: Recorded) -> None:
    recorded.write("status", [round_at(0, cluster=NEIGHBOUR)])
    unseen = command(BLUE)
    assert unseen.exit_code == 3
    assert unseen.stdout.startswith("Cluster blue has never been seen")
    assert len(unseen.stdout.splitlines()) == 1
    recorded.write("status", story())
    page = PAGE.read_text(encoding="utf-8").partition("answers in sentences:\n\n")[2]
    assert page.partition("\n\n")[0].split() == command(BLUE).stdout.split()
    assert json.loads(command(BLUE, "--json", "--back", "5m").stdout)["rounds_read"] == 6
    assert "hot for 7 rounds" in command(BLUE, "--node", "n1").stdout
    assert "hot for 7 rounds" in command(BLUE, "--pod", "shop/web-1").stdout
