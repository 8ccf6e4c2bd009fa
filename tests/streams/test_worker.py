"""The worker end to end, on the embedded broker and on a real Kafka."""

from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connectors.process.wall_clock import now_ms
from schemas.base.quantities import parse_amount
from schemas.messages.decisions import PlacementDecision, SchedulingRequest
from schemas.messages.metrics import NodeMetric
from schemas.messages.policies import PolicyRecord
from schemas.messages.usage import CollectPolicyRecord, NodeUsage
from schemas.topics.codec import encode
from tests.conftest import RunningBroker
from tests.streams.builders import CLUSTER, nodes, numbered_request
from tests.streams.worker_process import POSITIONS, Client, Worker, client

_NODES = 8
_POD_CPU = "1500m"

pytestmark = pytest.mark.timeout(400)


def _metrics() -> list[NodeMetric]:
    return [
        NodeMetric(
            cluster=CLUSTER,
            node=f"n{number}",
            updated_at_ms=now_ms(),
            usage={"cpu": 1000 * number, "memory": 2**30 * (number + 1)},
        )
        for number in range(_NODES)
    ]


def _request(number: int) -> SchedulingRequest:
    return numbered_request(number, at_ms=now_ms(), cpu=_POD_CPU)


async def test_a_killed_worker_continues_where_it_was_and_no_room_is_used_twice(
    broker: RunningBroker, tmp_path: Path
) -> None:
    topics = ("placement-decisions", "dead-letters", POSITIONS)
    with Worker(broker.settings, tmp_path) as worker:
        async with client(broker.settings, worker, *topics) as kafka:
            await kafka.send("node-state", nodes(count=_NODES))
            await kafka.send("node-metrics", _metrics())
            # Topics have no order among them.
            await kafka.until(lambda: kafka.applied("node-metrics") == _NODES - 1)
            await kafka.send("scheduling-requests", map(_request, range(20)))
            await kafka.until(lambda: len(_placed(kafka.of("placement-decisions"))) == 20)
            await kafka.until(lambda: kafka.applied("scheduling-requests") == 19)

            worker.kill()
            await kafka.send("scheduling-requests", map(_request, range(20, 40)))
            worker.start()
            await kafka.until(lambda: len(_placed(kafka.of("placement-decisions"))) == 40)

            assert worker.stop() == 0
            assert kafka.of("dead-letters") == []
            by_id: dict[str, set[bytes]] = defaultdict(set)
            for decision in kafka.of("placement-decisions"):
                value = encode(decision)
                by_id[decision.decision_id].add(value)
            assert all(len(values) == 1 for values in by_id.values()), "one id, two decisions"

            placed = _placed(kafka.of("placement-decisions"))
            assert len({decision.pod.uid for decision in placed.values()}) == 40
            usage: dict[str, int] = defaultdict(int)
            for decision in placed.values():
                usage[decision.node or ""] += parse_amount("cpu", _POD_CPU)
            assert max(usage.values()) <= 16_000
            assert all(not decision.stale_nodes for decision in placed.values())


async def test_bad_records_end_in_dead_letters_and_stop_nothing_for_others(
    broker: RunningBroker, tmp_path: Path
) -> None:
    with Worker(broker.settings, tmp_path) as worker:
        async with client(broker.settings, worker, "placement-decisions", "dead-letters") as kafka:
            await kafka.send("node-state", nodes(count=_NODES))
            await kafka.send_raw("scheduling-requests", b"\xff not json")
            await kafka.send_raw(
                "node-metrics", b'{"cluster":"test","node":"n0","usage":{"cpu":-1}}'
            )
            await kafka.send_raw("policies", b"[" * 100_000)
            mode = "loadAware:\n  usageThresholds:\n    cpu: 165\n"
            policy = PolicyRecord(cluster=CLUSTER, document=mode, applied_at_ms=now_ms())
            await kafka.send("policies", [policy])
            await kafka.send_raw("node-usage", b"{}", key=f"{CLUSTER}/n0")
            await kafka.send("scheduling-requests", [_request(1)])
            await kafka.until(
                lambda: (
                    len(kafka.of("dead-letters")) >= 5
                    and len(_placed(kafka.of("placement-decisions"))) == 1
                )
            )

            letters = {letter.topic: letter for letter in kafka.of("dead-letters")}
            assert set(letters) == {"scheduling-requests", "node-metrics", "policies", "node-usage"}
            assert "usage.cpu" in letters["node-metrics"].reason
            assert len(kafka.of("dead-letters")) == 5


async def test_usage_samples_become_metrics_by_which_pods_are_placed(
    broker: RunningBroker, tmp_path: Path
) -> None:
    with Worker(broker.settings, tmp_path) as worker:
        async with client(broker.settings, worker, "placement-decisions", "node-metrics") as kafka:
            await kafka.send("node-state", nodes(count=_NODES))
            sent_ms = now_ms()
            for number in range(_NODES):
                samples = [
                    NodeUsage(
                        cluster=CLUSTER,
                        node=f"n{number}",
                        sampled_at_ms=sent_ms - age_s * 1000,
                        usage={"cpu": 15_000 if number else 2_000, "memory": 2**30},
                    )
                    for age_s in (120, 90, 60, 30, 0)
                ]
                await kafka.send("node-usage", samples)
            await kafka.until(lambda: {m.node for m in kafka.of("node-metrics")} >= {"n0", "n7"})
            await kafka.until(lambda: len({m.node for m in kafka.of("node-metrics")}) == _NODES)
            # Topics keep no order among each other: the last metrics may still be on their way.
            for number in range(1, 60):
                await kafka.send("scheduling-requests", [_request(number)])
                await kafka.until(partial(_count_is, kafka, number))
                *_, decision = _placed(kafka.of("placement-decisions")).values()
                if decision.refused_by.get("LoadAwareScheduling") == _NODES - 1:
                    break
            assert decision.refused_by == {"LoadAwareScheduling": _NODES - 1}
            assert decision.node == "n0", "all others are at 94 % of their CPU"


async def test_a_collect_policy_governs_samples_of_all_partitions_also_after_a_restart(
    broker: RunningBroker, tmp_path: Path
) -> None:
    document = """
collect:
  metricReportIntervalSeconds: 30
  metricAggregateDurationSeconds: 60
  metricAggregatePolicy: {durations: [2m]}
"""
    policy = PolicyRecord(cluster=CLUSTER, document=document, applied_at_ms=now_ms())
    began_ms = now_ms() - 3_600_000

    async def sample(kafka: Client, first_s: int) -> None:
        for number in range(_NODES):
            samples = [
                NodeUsage(
                    cluster=CLUSTER,
                    node=f"n{number}",
                    sampled_at_ms=began_ms + at * 1_000,
                    usage={"cpu": at},
                )
                for at in range(first_s, first_s + 121, 10)
            ]
            await kafka.send("node-usage", samples)

    topics = ("node-usage", "node-metrics", "dead-letters")
    with Worker(broker.settings, tmp_path) as worker:
        async with client(broker.settings, worker, *topics) as kafka:

            def measured() -> set[tuple[str, int]]:
                """Metrics by node and time: a worker that was killed may write some again."""
                return {(metric.node, metric.updated_at_ms) for metric in kafka.of("node-metrics")}

            def policies() -> list[CollectPolicyRecord]:
                records = kafka.of("node-usage")
                return [record for record in records if isinstance(record, CollectPolicyRecord)]

            await kafka.send("policies", [policy])
            await kafka.until(lambda: len(policies()) >= broker.settings.partitions)
            await sample(kafka, 0)
            await kafka.until(lambda: len(measured()) >= 4 * _NODES)
            worker.kill()
            worker.start()
            await sample(kafka, 130)
            await kafka.until(lambda: len(measured()) >= 8 * _NODES)
            metrics: list[NodeMetric] = kafka.of("node-metrics")
            assert kafka.of("dead-letters") == []
            assert {metric.report_interval_ms for metric in metrics} == {30_000}
            assert len(measured()) == 8 * _NODES
            last = [metric for metric in metrics if metric.updated_at_ms == began_ms + 240_000]
            assert {metric.node for metric in last} == {f"n{number}" for number in range(_NODES)}
            assert all([w.duration_ms for w in metric.aggregated] == [120_000] for metric in last)


def _count_is(kafka: Client, count: int) -> bool:
    return len(_placed(kafka.of("placement-decisions"))) == count


def _placed(decisions: list[Any]) -> dict[str, PlacementDecision]:
    """Placed decisions by id: one that was published again counts once."""
    return {answer.decision_id: answer for answer in decisions if answer.outcome == "placed"}
