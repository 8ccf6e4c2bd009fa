"""A simulation without end."""

from collections import Counter
from typing import Any

import pytest

from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.decisions import AsOf, PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.pods import PodRef
from schemas.topics.codec import decode, encode
from simulation.cluster.continuous import (
    BACKLOG_MAX_MS,
    PATIENCE_MS,
    SPAN_MS,
    ContinuousSimulation,
)
from simulation.cluster.fitted import ALIBABA_2018
from simulation.cluster.machines import make_machines
from simulation.cluster.pods import PodPlan

BEGIN_MS = 1_790_000_000_000
MINUTE_MS = 60_000


class _Topics:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    def send(self, topic: str, message: Any) -> None:
        self.sent.append((topic, message))

    def of(self, topic: str) -> list[Any]:
        return [message for name, message in self.sent if name == topic]


def _cluster(topics: _Topics, nodes: int = 4, **options: Any) -> ContinuousSimulation:
    settings = {"seed": 1, "churn": 12.0, "period_s": 60.0, **options}
    cluster = ContinuousSimulation("c", nodes, send=topics.send, **settings)
    cluster.begin(BEGIN_MS)
    return cluster


def _answer(request: Any, outcome: str = "placed", node: str | None = "node-01") -> Any:
    return PlacementDecision(
        decision_id=f"of-{request.pod.uid}"[:64],
        cluster="c",
        pod=PodRef(namespace=request.pod.namespace, name=request.pod.name, uid=request.pod.uid),
        outcome=outcome,  # type: ignore[arg-type]  # as the test says
        node=node,
        decided_at_ms=BEGIN_MS,
        as_of=AsOf(partition=0, offsets={}, policy_digest="default"),
    )


def test_all_that_it_sends_can_be_read() -> None:
    topics = _Topics()
    _cluster(topics).advance(BEGIN_MS + 30 * MINUTE_MS)
    for topic, message in topics.sent:
        assert not isinstance(decode(topic, encode(message)), Refusal)


def test_it_begins_with_a_policy_and_full_lists() -> None:
    topics = _Topics()
    _cluster(topics, nodes=3)
    counts = Counter(topic for topic, _ in topics.sent)
    assert topics.sent[0][0] == "policies"
    assert counts["node-state"] == 3 + 2
    assert {each.list_id for each in topics.of("node-state")} == {f"begun-{BEGIN_MS}"}


def test_every_node_is_sampled_once_a_period_and_never_ahead_of_time() -> None:
    topics = _Topics()
    cluster = _cluster(topics)
    for minute in range(1, 11):
        now_ms = BEGIN_MS + minute * MINUTE_MS
        cluster.advance(now_ms)
        assert all(sample.sampled_at_ms <= now_ms for sample in topics.of("node-usage"))
    counts = Counter(sample.node for sample in topics.of("node-usage"))
    assert len(counts) == 4
    assert set(counts.values()) <= {10, 11}


def test_it_goes_on_beyond_what_was_drawn_at_once() -> None:
    topics = _Topics()
    cluster = _cluster(topics)
    for step in range(1, 15):
        cluster.advance(BEGIN_MS + step * SPAN_MS // 4)
    samples = topics.of("node-usage")
    assert {(each.sampled_at_ms - BEGIN_MS) // SPAN_MS for each in samples} == {0, 1, 2, 3}
    requests = [each for each in topics.of("scheduling-requests") if not each.withdrawn]
    assert len({each.pod.uid for each in requests}) == len(requests) == cluster.totals.requests
    times = [each.requested_at_ms for each in requests]
    assert times == sorted(times)


def test_samples_of_a_time_in_which_it_slept_are_left_out() -> None:
    topics = _Topics()
    cluster = _cluster(topics)
    now_ms = BEGIN_MS + 3 * 60 * MINUTE_MS
    cluster.advance(now_ms)
    times = [sample.sampled_at_ms for sample in topics.of("node-usage")]
    assert times
    assert min(times) >= now_ms - BACKLOG_MAX_MS


def test_a_placed_pod_is_bound_runs_and_goes() -> None:
    topics = _Topics()
    cluster = _cluster(topics)
    cluster.advance(BEGIN_MS + 20 * MINUTE_MS)
    request = topics.of("scheduling-requests")[0]
    cluster.receive(_answer(request), BEGIN_MS + 20 * MINUTE_MS)
    cluster.receive(_answer(request), BEGIN_MS + 20 * MINUTE_MS)
    assert cluster.totals.bound == 1
    (outcome,) = topics.of("command-outcomes")
    assert outcome.result == "done"
    cluster.advance(BEGIN_MS + SPAN_MS)
    events = [
        each.event
        for each in topics.of("pod-lifecycle")
        if getattr(each, "pod", None) is not None and each.pod.uid == request.pod.uid
    ]
    assert events[0] == "bound"
    assert events[-1] == "deleted"


def test_a_placement_that_a_node_does_not_take_is_reported_as_failed() -> None:
    topics = _Topics()
    cluster = _cluster(topics)
    cluster.advance(BEGIN_MS + 20 * MINUTE_MS)
    cluster.receive(_answer(topics.of("scheduling-requests")[0], node="nowhere"), BEGIN_MS)
    (outcome,) = topics.of("command-outcomes")
    assert (outcome.result, outcome.reason) == ("failed", "there is no node nowhere")
    assert cluster.totals.failed == 1


@pytest.mark.parametrize("outcome", ["waiting", "refused"])
def test_a_pod_without_a_node_is_given_up_once(outcome: str) -> None:
    topics = _Topics()
    cluster = _cluster(topics)
    cluster.advance(BEGIN_MS + 20 * MINUTE_MS)
    first = topics.of("scheduling-requests")[0]
    cluster.receive(_answer(first, outcome, None), BEGIN_MS + 20 * MINUTE_MS)
    for minute in range(21, 60):
        cluster.advance(BEGIN_MS + minute * MINUTE_MS)
    withdrawn = [
        each
        for each in topics.of("scheduling-requests")
        if each.withdrawn and each.pod.uid == first.pod.uid
    ]
    # A pod that was refused for good does not ask any more.
    assert len(withdrawn) == (1 if outcome == "waiting" else 0)
    assert all(each.requested_at_ms >= BEGIN_MS + PATIENCE_MS for each in withdrawn)


def test_answers_for_other_clusters_change_nothing_and_unknown_pods_fail() -> None:
    topics = _Topics()
    cluster = _cluster(topics)
    cluster.advance(BEGIN_MS + 20 * MINUTE_MS)
    request, sent = topics.of("scheduling-requests")[0], len(topics.sent)
    cluster.receive(_answer(request).model_copy(update={"cluster": "d"}), BEGIN_MS)
    stranger = PodRef(namespace="n", name="p", uid="of-a-run-before")
    cluster.receive(_answer(request).model_copy(update={"pod": stranger}), BEGIN_MS)
    assert len(topics.sent) == sent + 1
    (outcome,) = topics.of("command-outcomes")
    assert (outcome.result, outcome.pod.uid) == ("failed", stranger.uid)


def test_commands_expire_by_the_clock_of_the_partition_of_the_cluster() -> None:
    topics = _Topics()
    cluster = _cluster(topics, partition=2)
    cluster.advance(BEGIN_MS + 20 * MINUTE_MS)
    first, second = topics.of("scheduling-requests")[:2]
    expiry_ms = BEGIN_MS + 20 * MINUTE_MS
    now_ms = BEGIN_MS + 20 * MINUTE_MS
    for request, partition in ((first, 1), (second, 2)):
        cluster.receive(ClockTick(partition=partition, now_ms=expiry_ms), now_ms)
        answer = _answer(request).model_copy(update={"expires_at_ms": expiry_ms})
        cluster.receive(answer, now_ms)
    assert [each.result for each in topics.of("command-outcomes")] == ["done", "expired"]


def _command(plan: PodPlan, **more: Any) -> EvictionCommand:
    values: dict[str, Any] = {
        "command_id": f"evict-{plan.pod.uid}", "cluster": "c", "node": plan.pod.node, "reason": "hot",
        "pod": PodRef(namespace=plan.pod.namespace, name=plan.pod.name, uid=plan.pod.uid),
        "dry_run": False, "decided_at_ms": BEGIN_MS, "expires_at_ms": BEGIN_MS + 60 * MINUTE_MS,
        "as_of": AsOf(partition=0, offsets={}, policy_digest="default"),
    }  # fmt: skip
    return EvictionCommand(**(values | more))


def test_an_evicted_pod_is_replaced_by_one_that_asks_for_a_node() -> None:
    topics = _Topics()
    cluster = _cluster(topics)
    cluster.advance(BEGIN_MS + MINUTE_MS)
    machine = make_machines(4, 1, ALIBABA_2018, BEGIN_MS)[0]
    one, two = machine.residents[:2]
    cluster.receive(_command(one, dry_run=True, command_id="dry-command"), BEGIN_MS + MINUTE_MS)
    assert [each.result for each in topics.of("command-outcomes")] == ["dry"]
    cluster.receive(_command(one), BEGIN_MS + MINUTE_MS)
    cluster.receive(_command(two, cluster="another"), BEGIN_MS + MINUTE_MS)
    assert [each.result for each in topics.of("command-outcomes")] == ["dry", "done"]
    request = topics.of("scheduling-requests")[-1]
    assert request.pod.name == f"{one.pod.name}.1"
    cluster.receive(_answer(request, node="node-02"), BEGIN_MS + MINUTE_MS)
    cluster.advance(BEGIN_MS + 2 * MINUTE_MS)
    events = [
        (each.event, each.pod.name) for each in topics.of("pod-lifecycle") if hasattr(each, "pod")
    ]
    assert events[-2:] == [("running", request.pod.name), ("deleted", one.pod.name)]
    assert (cluster.totals.evicted, cluster.totals.dry) == (1, 1)


def test_workloads_and_budgets_are_part_of_the_first_list() -> None:
    topics = _Topics()
    _cluster(topics, nodes=3)
    kinds = Counter(each.kind for each in topics.of("pod-lifecycle"))
    assert kinds["workload"] == kinds["disruption-budget"] == 3
    budgets = [each for each in topics.of("pod-lifecycle") if each.kind == "disruption-budget"]
    assert {each.disruptions_allowed for each in budgets} == {1}
