"""`loadstream cluster why-not` on an embedded broker that holds the records of a few rounds."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from connectors.kafka.client import connect
from connectors.kafka.cluster_records import PastMessages, SearchProgress
from connectors.process import wall_clock
from connectors.queries.whynot import reading
from loadstream.commands import app
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import build_dead_letter
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
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from streams.migration.limits.budgets import describe
from streams.migration.limits.workloads import Replicas
from tests.conftest import RunningBroker
from tests.connectors.queries.recorded import Recorded

NOW_MS = 1_795_000_000_000
MINUTE_MS = 60_000
#: The time on the machine of who asks: half a minute after the last round of the story.
ASKED_MS = NOW_MS + 7 * MINUTE_MS + 30_000
AS_OF = AsOf(partition=0, offsets={"clock": 7}, policy_digest="default")
WEB = PodRef(namespace="shop", name="web-1", uid="u1")
API = PodRef(namespace="shop", name="api-1", uid="u2")
#: Gates in the words of those that stop pods.
REPLICAS = Replicas("u9", "ReplicaSet shop/web", 9, inferred=False)
BUDGET = describe(
    DisruptionBudgetRow(
        cluster="blue",
        budget=DisruptionBudget(
            cluster="blue", namespace="shop", name="web", current_healthy=8, desired_healthy=8,
            expected_pods=9,
        ),
    )
)  # fmt: skip
PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "why-not.md"
#: Clusters of which the first two share a partition of four.
BLUE = "blue"
NEIGHBOUR = next(
    name
    for name in (f"other-{number}" for number in range(100))
    if partition_for(name.encode(), 4) == partition_for(BLUE.encode(), 4)
)


@pytest.fixture
def recorded(embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", embedded.bootstrap_servers)
    monkeypatch.setenv("LOADSTREAM_KAFKA_PARTITIONS", str(embedded.settings.partitions))
    monkeypatch.setattr(wall_clock, "now_ms", lambda: ASKED_MS)
    recorded = Recorded(embedded)
    recorded.tick(ASKED_MS - 1_000, BLUE)
    return recorded


def waits(pod: PodRef = WEB) -> PlacementDecision:
    """A pod has no node yet."""
    return PlacementDecision(
        decision_id="decision-1", cluster=BLUE, pod=pod, outcome="waiting", message="3 nodes full",
        decided_at_ms=NOW_MS, as_of=AS_OF,
    )  # fmt: skip


def metric_of_web() -> NodeMetric:
    """What web-1 uses on node n1."""
    pods = (PodMetric(namespace="shop", name="web-1", usage={"cpu": 1}),)
    return NodeMetric(cluster=BLUE, node="n1", updated_at_ms=NOW_MS, usage={"cpu": 1}, pods=pods)


def ask(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["cluster", "why-not", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def a_round(number: int, *hot: HotNode, cluster: str = BLUE, **more: Any) -> RebalanceRound:
    """Round `number` minutes after the first one."""
    leaving = sum(each.leaving for each in hot)
    pool = PoolRound(
        pool="web",
        nodes={"low": 2, "normal": 5, "high": len(hot), "skipped": 1},
        thresholds=ThresholdsInForce(low={"cpu": 45.0}, high={"cpu": 70.0}, source="policy"),
        rounds_needed=3,
        wanted=sum(len(each.pods) for each in hot),
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
    """n1 turns hot; first it is not hot for long enough, then a budget stops its pod."""
    rounds = [a_round(0)]
    rounds += [a_round(n, hot_node(n, gate=f"hot for {n} of 3 rounds in a row")) for n in (1, 2)]
    rounds += [
        a_round(
            n,
            hot_node(n, stopped(WEB, f"{n} migrations of {REPLICAS} are under way; 3 may be")),
        )
        for n in (3, 4, 5)
    ]
    leaving = PodVerdict(pod=API, target="n7", migration_id="migration-1")
    budget = stopped(WEB, BUDGET)
    return [*rounds, a_round(6, hot_node(6, budget, leaving)), a_round(7, hot_node(7, budget))]


def test_the_documentation_shows_the_real_answer_for_a_cluster(recorded: Recorded) -> None:
    recorded.write("status", story())
    page = PAGE.read_text(encoding="utf-8").partition("answers in sentences:\n\n")[2]
    assert page.partition("\n\n")[0].split() == ask(BLUE).stdout.split()


def test_the_same_round_published_twice_counts_once(recorded: Recorded) -> None:
    recorded.write("status", [a_round(0), a_round(1), a_round(0), a_round(1)])
    assert json.loads(ask(BLUE, "--json").stdout)["rounds_read"] == 2


def test_rounds_are_read_back_to_the_requested_time(recorded: Recorded) -> None:
    recorded.write("status", [a_round(number) for number in range(90)])
    assert json.loads(ask(BLUE, "--json").stdout)["rounds_read"] == 61
    assert json.loads(ask(BLUE, "--json", "--back", "5m").stdout)["rounds_read"] == 6


def test_the_answer_says_that_older_rounds_were_not_read(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.write("status", [a_round(number) for number in range(9)])
    monkeypatch.setattr(reading, "ROUNDS_MAX", 4)
    cut = "Only the newest 4 rounds were read, back to 2026-11-18 11:11:40.000 "
    assert ask(BLUE).stdout.startswith(cut)
    assert "less than --back asks for" in json.loads(ask(BLUE, "--json").stdout)["warnings"][0]
    assert "Only the newest" not in ask(BLUE, "--back", "2m").stdout
    monkeypatch.setattr(reading, "ROUNDS_MAX", 10)
    assert "Only the newest" not in ask(BLUE).stdout


def test_the_answer_for_a_hot_node_gives_its_readings_thresholds_rounds_and_gate(
    recorded: Recorded,
) -> None:
    recorded.write("status", story()[:3])
    said = ask(BLUE, "--node", "n1").stdout
    assert (
        "Node n1 is in class high, judged by LowNodeLoad in pool web: it uses cpu 12.8 of 16 (80.0 %, at "
        "most 70.0 %). In force: lightly loaded below cpu 45 %, hot above cpu 70 % (policy)."
        in said
    )
    assert "It is hot for 2 rounds in a row; 3 are needed." in said
    assert "It was stopped: hot for 2 of 3 rounds in a row." in said


def test_the_answer_for_a_cooled_node_has_its_last_hot_round_and_current_usage(
    recorded: Recorded,
) -> None:
    recorded.write("status", [*story(), a_round(8), a_round(9)])
    recorded.write(
        "node-state",
        [NodeState(cluster=BLUE, node="n1", event="added", allocatable={"cpu": "16"})],
    )
    recorded.write(
        "node-metrics",
        [NodeMetric(cluster=BLUE, node="n1", updated_at_ms=NOW_MS, usage={"cpu": 4_000})],
    )
    said = ask(BLUE, "--node", "n1")
    assert said.exit_code == 0
    assert "not among the hot nodes that the newest round names" in said.stdout
    assert (
        "It was last hot at 2026-11-18 11:13:40.000 (30s ago), 2 rounds before the newest, by LowNodeLoad in pool web: "
        in (said.stdout)
    )
    assert said.stdout.startswith("n1 is unknown: its metric is 7m30s old, at most 3m.")
    assert "it used cpu 4, of its capacity cpu 25.0 %." in said.stdout
    assert "such a node is never hot): 1 node of pool web." in said.stdout


@pytest.mark.parametrize(
    ("newest", "said"),
    [
        (
            {"updated_at_ms": ASKED_MS - 12 * MINUTE_MS, "usage": {"cpu": 4_000}},
            "(12m ago), measured by kubelet_resource: it used cpu 4.",
        ),
        (
            {"removed": True},
            "n1 is unknown: kubelet_resource, which measured it last, no longer has figures of it.",
        ),
    ],
)
def test_the_answer_for_a_node_says_what_measured_it_and_when(
    recorded: Recorded, newest: dict[str, Any], said: str
) -> None:
    recorded.write("status", [a_round(0)])
    metric = NodeMetric(cluster=BLUE, node="n1", source="kubelet_resource", **newest)
    recorded.write("node-metrics", [metric])
    assert said in ask(BLUE, "--node", "n1").stdout


@pytest.mark.parametrize(
    ("newest", "said"),
    [
        ({"usage": {"cpu": 4_000}}, "its newest metric does not say when it was measured"),
        ({"updated_at_ms": NOW_MS}, "its newest metric has no figures"),
        ({"removed": True}, "its metric was removed"),
        (None, "no metric of it was found"),
    ],
)
def test_the_answer_gives_the_reason_of_unknown_usage(
    recorded: Recorded, newest: dict[str, Any] | None, said: str
) -> None:
    recorded.write("status", [a_round(0)])
    recorded.write("node-state", [NodeState(cluster=BLUE, node="n1", event="added")])
    if newest is not None:
        recorded.write("node-metrics", [NodeMetric(cluster=BLUE, node="n1", **newest)])
    answer = ask(BLUE, "--node", "n1").stdout
    assert answer.startswith(f"n1 is unknown: {said}.")


def test_the_answer_for_a_drained_node_gives_its_drain_and_its_migrations(
    recorded: Recorded,
) -> None:
    recorded.write("status", [a_round(0)])
    drain = DrainStatus(
        cluster=BLUE, node="n1", phase="Draining", pods_left=2, pods_protected=0,
        request_id="request-1", happened_at_ms=NOW_MS, as_of=AS_OF,
    )  # fmt: skip
    recorded.write("status", [drain, migration("Running", 1)])
    said = ask(BLUE, "--node", "n1").stdout
    assert "node n1 draining: 2 pods left, 0 protected." in said
    assert "migration migration-1 of pod shop/web-1 from n1: Running" in said


@pytest.mark.parametrize("about", [(), ("--node", "n9")])
def test_a_pool_without_thresholds_is_left_out_where_another_strategy_judges_its_nodes(
    about: tuple[str, ...], recorded: Recorded
) -> None:
    unjudged = PoolRound(
        pool="__default_node_pool__",
        nodes={"normal": 2},
        thresholds=ThresholdsInForce(source="policy"),
        gate="the pool has no thresholds",
    )
    by_risk = PoolRound(pool="OverutilizationRisk", nodes={"normal": 2})
    alone = a_round(0).model_copy(update={"pools": (unjudged,)})
    recorded.write("status", [alone])
    assert "__default_node_pool__" in ask(BLUE, *about).stdout
    both = a_round(1).model_copy(update={"pools": (unjudged, by_risk)})
    recorded.write("status", [both])
    answer = ask(BLUE, *about).stdout
    assert "OverutilizationRisk" in answer
    assert "__default_node_pool__" not in answer


def migration(phase: Any, minutes: int) -> MigrationStatus:
    return MigrationStatus(
        cluster=BLUE, migration_id="migration-1", pod=WEB, source_node="n1", mode="EvictDirectly",
        phase=phase, message="waits for its turn", trigger="rebalance", dry_run=True,
        deadline_ms=NOW_MS, created_at_ms=NOW_MS, changed_at_ms=NOW_MS,
        happened_at_ms=NOW_MS + minutes * MINUTE_MS, as_of=AS_OF,
    )  # fmt: skip


def test_the_answer_for_a_pod_gives_the_first_gate_that_stopped_it_and_since_when(
    recorded: Recorded,
) -> None:
    recorded.write("status", story()[:6])
    said = ask(BLUE, "--pod", "shop/web-1").stdout
    assert (
        "It is on node n1, judged by LowNodeLoad in pool web: hot for 5 rounds in a row; 3 are needed"
        in said
    )
    assert (
        "It was stopped: 5 migrations of ReplicaSet shop/web with 9 replicas are under way" in said
    )
    assert (
        "The same gate has stopped it for 3 rounds, since 2026-11-18 11:09:40.000 (4m 30s ago)"
        in said
    ), "the rounds before were stopped by another gate"


def test_a_pod_moved_by_risk_is_not_reported_as_stopped(
    recorded: Recorded,
) -> None:
    gate = "no target could take it without becoming hot"
    by_thresholds = a_round(0, hot_node(3, stopped(WEB, gate), node="n1"))
    leaves = hot_node(0, PodVerdict(pod=WEB, target="n7"), cost=0.4)
    by_risk = PoolRound(pool="OverutilizationRisk", hot=(leaves,))
    both = by_thresholds.model_copy(update={"pools": (*by_thresholds.pools, by_risk)})
    recorded.write("status", [both])
    lines = ask(BLUE, "--pod", "shop/web-1").stdout.splitlines()
    assert [line.partition(":")[0] for line in lines[1:]] == [
        "It is on node n1, judged by OverutilizationRisk",
        "It was not stopped",
        "It is on node n1, judged by LowNodeLoad in pool web",
        "It was stopped",
    ]
    verdict = json.loads(ask(BLUE, "--pod", "shop/web-1", "--json").stdout)["verdict"]
    assert (verdict["gate"], verdict["target"]) == ("", "n7")


def test_the_answer_for_a_migrating_pod_has_its_state_and_outcome(
    recorded: Recorded,
) -> None:
    recorded.write("status", story())
    recorded.write("status", [migration("Pending", 1), migration("Succeeded", 2)])
    move = MoveOutcome(
        command_id="command-1", migration_id="migration-1", cluster=BLUE, pool="web", phase="node",
        pod=WEB, owner="rs-1", source_node="n1", source_hot_before=True, source_hot_after=True,
        evicted_at_ms=NOW_MS, ended_at_ms=NOW_MS + MINUTE_MS, as_of=AS_OF,
    )  # fmt: skip
    recorded.write("status", [move])
    said = ask(BLUE, "--pod", "shop/web-1").stdout
    assert "Succeeded: waits for its turn." in said
    assert "Pending" not in said
    assert "The pod stays where it is." in said
    assert "n1 was hot before, hot after; no replacement came." in said


def test_the_answer_for_a_pod_on_a_node_that_is_not_hot_says_so(recorded: Recorded) -> None:
    recorded.write("status", [a_round(0, hot_node(3, node="n2"))])
    recorded.write("node-metrics", [metric_of_web()])
    answer = ask(BLUE, "--pod", "shop/web-1")
    assert (
        "no record of topic pod-lifecycle names it. Rounds ignore it until there is one"
        in answer.stdout
    )
    fresh = metric_of_web().model_copy(update={"updated_at_ms": ASKED_MS - MINUTE_MS})
    recorded.write("node-metrics", [fresh])
    recorded.write("pod-lifecycle", [seen_pod("running")])
    answer = ask(BLUE, "--pod", "shop/web-1")
    assert answer.exit_code == 0
    assert "It is on node n1, which is not hot: only pods of hot nodes leave." in answer.stdout


def test_the_answer_for_a_pod_that_waits_for_a_node_says_so(recorded: Recorded) -> None:
    recorded.write("status", [a_round(0)])
    recorded.write("placement-decisions", [waits()])
    said = ask(BLUE, "--pod", "shop/web-1").stdout
    assert (
        "It is on no node: at 2026-11-18 11:06:40.000 (7m 30s ago) the decision was waiting: 3 nodes full."
        in said
    )


def test_an_unknown_pod_is_reported_as_unknown(recorded: Recorded) -> None:
    recorded.write("status", [a_round(0)])
    answer = ask(BLUE, "--pod", "shop/gone-1")
    assert answer.exit_code == 3
    assert "No metric, decision or migration names it" in answer.stdout


def test_without_rounds_possible_causes_are_listed(recorded: Recorded) -> None:
    recorded.write("status", [a_round(0, cluster=NEIGHBOUR)])
    answer = ask(BLUE)
    assert answer.exit_code == 3
    assert "No round of rebalancing of cluster blue was found in all 1 record" in answer.stdout
    assert answer.stdout.startswith("Cluster blue has never been seen: no producer names it.")
    assert "It has no policy; the default policy moves pods by risk." in answer.stdout


def test_the_answer_for_a_paused_cluster_says_so(recorded: Recorded) -> None:
    record = PolicyRecord(cluster=BLUE, document="", paused=True, applied_at_ms=NOW_MS)
    recorded.write("policies", [record])
    assert "paused: `loadstream cluster resume`" in ask(BLUE).stdout
    recorded.write("status", [a_round(0)])
    assert "The cluster is paused: no command is sent" in ask(BLUE).stdout


def test_a_refused_pause_has_no_effect(recorded: Recorded) -> None:
    record = PolicyRecord(cluster=BLUE, document="colect: {}", paused=True, applied_at_ms=NOW_MS)
    recorded.write("policies", [record])
    home = partition_for(BLUE.encode(), recorded.settings.partitions)
    refusal = Refusal("invalid", "the policy was not applied")
    letter = build_dead_letter("policies", home, 0, None, BLUE.encode(), encode(record), refusal)
    recorded.write("dead-letters", [letter])
    recorded.write("status", story())
    assert "The cluster is paused" not in ask(BLUE).stdout


def test_a_silent_worker_is_reported_first(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.write("status", story())
    monkeypatch.setattr(wall_clock, "now_ms", lambda: ASKED_MS + 3 * 60 * MINUTE_MS)
    lines = ask(BLUE).stdout.splitlines()
    assert lines[0] == (
        "No worker has written for 3h: the cluster's clock stands at 2026-11-18 11:14:09.000. Nothing is "
        "decided until `loadstream worker` runs. If a worker runs, see its log; it may be waiting, or this "
        "machine's clock is ahead."
    )
    assert "was at 2026-11-18 11:13:40.000 (3h ago)" in lines[1]
    whole = json.loads(ask(BLUE, "--json").stdout)
    assert whole["warnings"] == [lines[0]]
    assert (whole["now_ms"], whole["clock_ms"]) == (ASKED_MS + 3 * 60 * MINUTE_MS, ASKED_MS - 1_000)


def seen_pod(event: Any, uid: str = "u1", node: str | None = "n1") -> PodLifecycle:
    pod = Pod(namespace="shop", name="web-1", uid=uid, node=node)
    return PodLifecycle(cluster=BLUE, event=event, pod=pod)


@pytest.mark.parametrize(
    ("newest", "first", "later"),
    [
        (seen_pod("deleted"), "Pod shop/web-1 no longer exists: it was deleted.", "It was on"),
        (seen_pod("running", "u9", "n4"), "Another pod has the name shop/web-1 now and is on node n4;", "It was on"),
        (seen_pod("running", node="n4"), "Pod shop/web-1 has left node n1 and is on node n4.", "It was on"),
        (seen_pod("running"), "It is on node n1, judged by LowNodeLoad in pool web", "It is on"),
    ],
)  # fmt: skip
def test_a_pod_that_left_its_node_is_reported_in_the_past(
    recorded: Recorded, newest: PodLifecycle, first: str, later: str
) -> None:
    recorded.write("status", story()[:6])
    recorded.write("pod-lifecycle", [newest])
    lines = ask(BLUE, "--pod", "shop/web-1").stdout.splitlines()
    assert lines[1].startswith(first)
    assert next(line for line in lines if " on node n1, judged by" in line).startswith(later)


def test_a_pod_that_is_gone_is_on_no_node(recorded: Recorded) -> None:
    recorded.write("status", [a_round(0)])
    recorded.write("node-metrics", [metric_of_web()])
    recorded.write("pod-lifecycle", [seen_pod("finished")])
    answer = ask(BLUE, "--pod", "shop/web-1")
    assert answer.exit_code == 0
    assert "no longer exists: it was finished." in answer.stdout
    assert "It is on node" not in answer.stdout


@pytest.mark.parametrize("newest", [seen_pod("deleted", "u0"), seen_pod("seen", node=None), None])
def test_a_waiting_pod_is_not_confused_with_an_earlier_pod_of_its_name(
    recorded: Recorded, newest: PodLifecycle | None
) -> None:
    recorded.write("status", [a_round(0)])
    recorded.write("node-metrics", [metric_of_web()])
    recorded.write("pod-lifecycle", [] if newest is None else [newest])
    recorded.write("placement-decisions", [waits()])
    said = ask(BLUE, "--pod", "shop/web-1").stdout
    assert "the decision was waiting: 3 nodes full." in said
    assert "It is on node n1" not in said
    assert "no longer exists" not in said


def hot_by_its_metric(recorded: Recorded, minutes: int, *pools: PoolRound, **policy: Any) -> str:
    """The answer for n1, of which a metric so many minutes after the only round says 75 % of cpu."""
    found = a_round(0) if not pools else a_round(0).model_copy(update={"pools": pools})
    recorded.write("status", [found])
    recorded.write(
        "node-state",
        [NodeState(cluster=BLUE, node="n1", event="added", allocatable={"cpu": "16"})],
    )
    metric = NodeMetric(
        cluster=BLUE, node="n1", updated_at_ms=NOW_MS + minutes * MINUTE_MS, usage={"cpu": 12_000}
    )
    recorded.write("node-metrics", [metric])
    document = "rebalance: {nodeMetricExpirationSeconds: 600}"
    record = PolicyRecord(cluster=BLUE, document=document, applied_at_ms=NOW_MS, **policy)
    recorded.write("policies", [record])
    return ask(BLUE, "--node", "n1").stdout


@pytest.mark.parametrize(
    ("minutes", "paused", "why"),
    [
        (0, False, ", and LowNodeLoad in pool web did not call it hot in the newest round."),
        (3, False, ". The metric is newer than the newest round; the next one judges it."),
        (0, True, ", but no round judges it: the cluster is paused."),
    ],
)
def test_a_node_that_is_hot_by_its_metric_and_not_called_hot_is_explained(
    recorded: Recorded, minutes: int, paused: bool, why: str
) -> None:
    said = hot_by_its_metric(recorded, minutes, paused=paused)
    assert "of its capacity cpu 75.0 %." in said
    assert f"That is above cpu 70 %{why}" in said
    assert "do not count" not in said, "no migration is under way"


CAPACITY = {"cpu": "16", "memory": "64Gi"}


@pytest.mark.parametrize(
    ("state", "refused"),
    [
        (
            {"capacity": CAPACITY},
            "cpu: measured 154000, but the node has 16000; expected at most 105 % of that",
        ),
        ({"created_at_ms": ASKED_MS}, "it belongs to an earlier node of this name"),
    ],
)
def test_a_refused_metric_is_not_shown_as_usage(
    recorded: Recorded, state: dict[str, Any], refused: str
) -> None:
    recorded.write("status", [a_round(0)])
    recorded.write("node-state", [NodeState(cluster=BLUE, node="n1", event="added", **state)])
    recorded.write(
        "node-metrics",
        [NodeMetric(cluster=BLUE, node="n1", updated_at_ms=ASKED_MS - 1, usage={"cpu": 154_000})],
    )
    assert ask(BLUE, "--node", "n1").stdout.startswith(
        f"n1 is unknown: its metric was refused, {refused}."
    )
    if "capacity" in state:
        before = NodeMetric(
            cluster=BLUE, node="n1", updated_at_ms=ASKED_MS - MINUTE_MS, usage={"cpu": 400}
        )
        impossible = before.model_copy(
            update={"updated_at_ms": ASKED_MS, "usage": {"cpu": 154_000}}
        )
        recorded.write("node-metrics", [before, impossible])
        said = ask(BLUE, "--node", "n1").stdout
        assert f"it uses cpu 0.4.\nA newer metric was refused: {refused}." in said


def test_invalid_options_are_errors() -> None:
    for arguments, said in (
        (("--pod", "web-1"), "expected NAMESPACE/NAME"),
        (("--back", "soon"), "expected a duration"),
        (("--node", "n1", "--pod", "a/b"), "expected at most one of them"),
    ):
        answer = ask(BLUE, *arguments)
        assert answer.exit_code == 2
        assert said in " ".join(answer.output.replace("│", " ").split())


def test_a_search_reads_from_the_end_and_only_as_far_as_it_may(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.write("status", [a_round(number) for number in range(1_000)])
    connection = connect(recorded.settings)
    looked = SearchProgress()
    newest = PastMessages(connection, "status", BLUE, 10_000).newest(looked)
    assert next(newest) == a_round(999)
    assert looked.records == 1
    assert [each.round_id for each in newest] == [f"round-{n:04}" for n in range(998, -1, -1)]
    assert looked.whole
    bounded = SearchProgress()
    found = list(PastMessages(connection, "status", BLUE, 150).newest(bounded))
    assert (len(found), bounded.records, bounded.whole) == (150, 150, False)
    monkeypatch.setattr(reading, "ROUNDS_MAX", 10)
    assert json.loads(ask(BLUE, "--json", "--back", "1d").stdout)["rounds_read"] == 10
