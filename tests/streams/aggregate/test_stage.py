from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.base.refusals import Category
from schemas.messages.dead_letters import restore_record
from schemas.messages.metrics import NodeMetric
from schemas.messages.usage import CollectPolicyRecord, NodeUsage
from schemas.topics.codec import decode, encode
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.aggregate.node import NodeWindows
from streams.aggregate.partition import PartitionState
from streams.aggregate.samples import SampleFigures
from streams.aggregate.stage import AggregateStage
from streams.stage.packing import apply_changes
from streams.stage.records import InputRecord
from tests.streams.aggregate.histories import batches, histories
from tests.streams.aggregate.oracle import NaiveNode
from tests.streams.builders import (
    MINUTE,
    QUICK,
    QUICK_COLLECTING,
    SECOND,
    START_MS,
    collect_policy,
    node_in,
    pod_usage,
    sample,
)
from tests.streams.world import Log, SampleWorld, aggregate_stage, read_letter, read_metrics

#: Rules under which nodes are not forgotten or reset; the oracle does neither.
_SLOW = collect_policy(60, 90, (120,)).model_copy(update={"memory": "usageWithPageCache"})
FAITHFUL = PoolRules(QUICK, {"slow": _SLOW})
QUICK_HORIZON_MS = PoolRules(QUICK).horizon_ms
SWEEP = AggregateLimits().sweep_records
LONG_MEMORY = AggregateLimits(forget_after_ms=10**12)


def refusals(of: AggregateStage, *records: InputRecord) -> list[tuple[int, Category]]:
    """Offsets and categories of the dead letters."""
    letters = [read_letter(output) for output in of.apply(records).dead_letters]
    return [(letter.offset, letter.category) for letter in letters]


@given(histories().flatmap(batches))
def test_a_stage_without_a_table_gives_the_same_outputs_and_no_rows(
    parts: list[list[InputRecord]],
) -> None:
    kept = aggregate_stage()
    bare = AggregateStage(
        PartitionState(0, QUICK_COLLECTING, first=True), 1, AggregateLimits(), has_table=False
    )
    for records in parts:
        expected, result = kept.apply(records), bare.apply(records)
        assert result.rows == ()
        assert (result.outputs, result.dead_letters) == (expected.outputs, expected.dead_letters)
    assert bare.take_counts() == kept.take_counts()
    assert list(bare.state.nodes) == list(kept.state.nodes)
    assert bare.state.pods_log.live == kept.state.pods_log.live
    assert bare.state.samples_log.live == kept.state.samples_log.live


def test_a_sample_older_than_the_longest_window_is_refused_as_late() -> None:
    world = SampleWorld()
    world.send(sample(0), sample(200))
    old_enough, too_old = world.log.add(sample(80), sample(79.999))
    assert refusals(world.stage, old_enough, too_old) == [(3, "late")]


def test_counts_are_reported_once_and_refusals_by_topic_and_category() -> None:
    world = SampleWorld()
    world.send(sample(0), sample(0), sample(200), sample(0))
    counts = world.stage.take_counts()
    assert counts.results["taken"] == 2
    assert counts.results["duplicate"] == 1
    assert counts.refused == {("node-usage", "late"): 1}
    assert not world.stage.take_counts().results


def test_the_first_of_two_samples_with_the_same_time_counts() -> None:
    world = SampleWorld()
    records = world.log.add(
        sample(0, cpu=100),
        sample(0, cpu=900),
        sample(30, cpu=100),
    )
    result = world.apply(records)
    assert read_metrics(result.outputs)[0].usage == {"cpu": 100}
    (refused,) = (read_letter(output) for output in result.dead_letters)
    assert (refused.offset, refused.category) == (1, "late")
    assert "one sample per node and time" in refused.reason


def test_a_sample_from_the_future_of_its_own_record_is_refused() -> None:
    world = SampleWorld()
    value = orjson.dumps(sample(60))
    at_the_limit = world.log.add_raw("node-usage", b"test/n0", value, START_MS)
    beyond = world.log.add_raw("node-usage", b"test/n0", value, START_MS - 1)
    without_a_time = world.log.add_raw("node-usage", b"test/n0", value, -1)
    assert refusals(world.stage, at_the_limit, beyond, without_a_time) == [(1, "future")]


@pytest.mark.parametrize(
    ("value", "category"),
    [
        (None, "unreadable"),
        (b"", "unreadable"),
        (b"\xff\xfe", "unreadable"),
        (b"{", "unreadable"),
        (b"[]", "invalid"),
        (orjson.dumps({**sample(0), "usage": {"cpu": -1}}), "invalid"),
        (orjson.dumps({**sample(0), "schema_version": 2}), "invalid"),
        (orjson.dumps(sample(0, node="another")), "misplaced"),
        (orjson.dumps(sample(sampled_at_ms=5)), "invalid"),
    ],
)
def test_unusable_records_go_whole_to_dead_letters(value: bytes | None, category: Category) -> None:
    world = SampleWorld()
    record = world.log.add_raw("node-usage", b"test/n0", value)
    (refused,) = (read_letter(output) for output in world.apply([record]).dead_letters)
    assert refused.category == category
    assert refused.reason
    assert restore_record(refused) == (b"test/n0", value)
    assert world.stage.counts == {f"refused_{category}": 1}
    assert not world.stage.state.nodes


def test_a_record_in_the_wrong_partition_is_refused() -> None:
    ours, theirs = node_in(1, 4), node_in(2, 4)
    log, subject = Log(1), aggregate_stage(partition=1, partitions=4)
    records = log.add(sample(0, node=ours), sample(0, node=theirs))
    keyless = log.add_raw("node-usage", None, orjson.dumps(sample(0, node=ours)))
    assert refusals(subject, *records, keyless) == [(1, "misplaced"), (2, "misplaced")]


def test_a_node_that_vanished_is_forgotten_by_the_samples_of_others() -> None:
    world = SampleWorld(limits=AggregateLimits(forget_after_ms=5 * MINUTE))
    world.send(sample(0, node="gone"))
    limit_ms = QUICK_HORIZON_MS + 5 * MINUTE
    records = world.log.add(
        *(sample((limit_ms + at) / 1000, node="here") for at in range(2 * SWEEP))
    )
    result = world.apply(records)
    assert set(world.stage.state.nodes) == {"test/here"}
    assert world.stage.counts["forgotten"] == 1
    assert "0/test/members/gone" in [row.key for row in result.rows if row.value is None]


def test_a_node_is_kept_until_the_limit() -> None:
    world = SampleWorld(limits=AggregateLimits(forget_after_ms=5 * MINUTE))
    world.send(sample(0, node="quiet"))
    at_ms = START_MS + QUICK_HORIZON_MS + 5 * MINUTE
    times = (at_ms - index for index in range(2 * SWEEP))
    world.send(*(sample(sampled_at_ms=at_ms, node="here") for at_ms in times))
    assert "test/quiet" in world.stage.state.nodes


def test_a_clock_that_is_wrong_by_years_forgets_no_other_node() -> None:
    world = SampleWorld(limits=AggregateLimits(forget_after_ms=5 * MINUTE))
    year_ms = 365 * 24 * 60 * MINUTE
    for at in range(0, 10 * SWEEP, 10):
        wrong = year_ms if at % 20 else -year_ms
        world.send(
            *(sample(at, node=node) for node in ("n0", "n1", "n2")),
            sample(at + wrong / 1000, node="broken"),
        )
    assert {"test/n0", "test/n1", "test/n2"} <= set(world.stage.state.nodes)
    assert world.stage.counts["forgotten"] == 0 or "test/broken" not in world.stage.state.nodes


def test_a_node_whose_clock_was_set_back_reports_again_soon() -> None:
    world = SampleWorld()
    ahead_ms = 365 * 24 * 60 * MINUTE
    records = world.log.add(
        *(sample(ahead_ms / 1000 + at) for at in range(0, 50, 10)),
        *(sample(at, cpu=7) for at in range(0, 400, 10)),
    )
    result = world.apply(records)
    after = [
        metric
        for metric in read_metrics(result.outputs)
        if (metric.updated_at_ms or 0) < START_MS + ahead_ms
    ]
    assert after[-1].usage == {"cpu": 7}
    assert world.stage.counts["set_back"] == 1
    assert len(result.dead_letters) < 10
    assert {read_letter(output).category for output in result.dead_letters} == {"late"}


def test_a_sample_of_more_than_the_node_has_is_refused() -> None:
    world = SampleWorld()
    eight: dict[str, Any] = {"capacity": {"cpu": 8_000}}
    records = world.log.add(
        sample(0, cpu=8_400, **eight),
        sample(1, cpu=8_401, **eight),
        sample(2, cpu=154_000, **eight),
        sample(3, cpu=10, pods=[pod_usage("a", 9_000)], **eight),
        sample(4, cpu=10, capacity={"cpu": 0}),
    )
    result = world.apply(records)
    refused = [read_letter(output) for output in result.dead_letters]
    assert [letter.offset for letter in refused] == [1, 2, 3]
    assert refused[1].reason == (
        "usage, cpu: measured 154000, but the node has 8000; expected at most 105 % of that"
    )
    assert len(world.stage.state.nodes["test/n0"].samples) == 2


def test_a_node_that_was_added_again_starts_without_samples() -> None:
    log = Log()
    old = [sample(at, cpu=9_000) for at in range(0, 100, 10)]
    created_ms = START_MS + 101 * SECOND
    new = [sample(at, cpu=10, node_created_at_ms=created_ms) for at in range(110, 200, 10)]
    records = log.add(*old, *new)
    whole = aggregate_stage().apply(records)
    last = read_metrics(whole.outputs)[-1]
    assert last.usage == {"cpu": 10}
    table: dict[str, bytes] = {}
    apply_changes(table, aggregate_stage().apply(records[:15]).rows)
    assert read_metrics(aggregate_stage(table).apply(records[15:]).outputs)[-1] == last


def test_old_samples_of_a_node_do_not_reset_other_nodes() -> None:
    """A connector sends its backlog faster than live samples arrive."""
    world = SampleWorld()
    for at in range(0, 100, 10):
        world.send(sample(at, node="live"))
        backlog = (START_MS - 180 * MINUTE + (at * 10 + number) * SECOND for number in range(30))
        world.send(*(sample(sampled_at_ms=at_ms, node="backlog") for at_ms in backlog))
    assert world.stage.counts["set_back"] == 0
    assert len(world.stage.state.nodes["test/live"].samples) == 10


def test_many_nodes_are_bounded_by_a_named_limit() -> None:
    world = SampleWorld(limits=AggregateLimits(nodes_per_partition=2))
    records = world.log.add(*(sample(0, node=f"n{index}") for index in range(3)))
    (refused,) = (read_letter(output) for output in world.apply(records).dead_letters)
    assert refused.category == "limit"
    assert "nodes_per_partition" in refused.reason


def test_samples_of_a_node_are_bounded_until_the_oldest_have_left_the_window() -> None:
    world = SampleWorld(limits=AggregateLimits(samples_per_node=3))
    samples = [sample(at) for at in (0, 1, 2, 3, 119, 120, 121, 122)]
    assert refusals(world.stage, *world.log.add(*samples)) == [
        (3, "limit"),
        (4, "limit"),
        (5, "limit"),
    ]


def test_resources_of_a_node_are_bounded_until_none_of_its_samples_has_them() -> None:
    world = SampleWorld(limits=AggregateLimits(resources_per_node=2))
    records = world.log.add(
        sample(0, usage={"cpu": 1, "a": 1}),
        sample(0.001, usage={"cpu": 1, "b": 1}),
        sample(0.002, usage={"cpu": 1}, pods=[pod_usage("p", 1, usage={"c": 1})]),
        sample((QUICK_HORIZON_MS + 1) / 1000, usage={"cpu": 1, "b": 1}),
    )
    assert refusals(world.stage, *records) == [(1, "limit"), (2, "limit")]
    assert set(world.stage.state.nodes["test/n0"].samples.resources) == {"cpu", "b"}


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (AggregateLimits(pods_per_node=2), "pods_per_node"),
        (AggregateLimits(name_characters_per_node=30), "name_characters_per_node"),
        (AggregateLimits(pod_figures_per_node=5), "pod_figures_per_node"),
    ],
)
def test_pods_of_a_node_are_bounded_until_they_have_left_the_average_window(
    limits: AggregateLimits, name: str
) -> None:
    world = SampleWorld(limits=limits)
    records = world.log.add(
        sample(0, pods=[pod_usage("a", 1), pod_usage("b", 1)]),
        sample(1, pods=[pod_usage("c", 1)]),
        sample((QUICK.average_ms + 1) / 1000, pods=[pod_usage("c", 1)]),
    )
    (refused,) = (read_letter(output) for output in world.apply(records).dead_letters)
    assert (refused.offset, refused.category) == (1, "limit")
    assert refused.reason.startswith(name)


@pytest.mark.parametrize("restarts", [False, True])
def test_figures_of_pods_are_bounded_by_resources_that_the_windows_have(restarts: bool) -> None:
    log, table, limits = Log(), dict[str, bytes](), AggregateLimits(pod_figures_per_node=8)
    subject = aggregate_stage(limits=limits)
    later = START_MS + QUICK_HORIZON_MS + 1
    for record in log.add(
        sample(0, usage=dict.fromkeys("abcd", 1)),
        *(
            sample(sampled_at_ms=later + at, pods=[pod_usage("a", 1), pod_usage("b", 1)])
            for at in range(3)
        ),
        sample(
            sampled_at_ms=later + QUICK.average_ms + 3,
            usage={"cpu": 1, "e": 1},
            pods=[pod_usage("a", 1)] * 2,
        ),
        sample(sampled_at_ms=later + QUICK.average_ms + 4, pods=[pod_usage("a", 1)]),
    ):
        result = subject.apply([record])
        apply_changes(table, result.rows)
        assert [read_letter(output).category for output in result.dead_letters] == (
            ["limit"] if record.offset in (3, 5) else []
        )
        if restarts:
            subject = aggregate_stage(table, limits=limits)
    assert subject.state.nodes["test/n0"].pods.size <= 8


def test_host_applications_of_a_node_are_bounded() -> None:
    world = SampleWorld(limits=AggregateLimits(host_applications_per_node=1))
    applications = [{"name": name, "usage": {"cpu": 1}} for name in ("a", "b")]
    assert refusals(world.stage, *world.log.add(sample(0, host_applications=applications))) == [
        (0, "limit")
    ]


def test_a_metric_without_its_pods_has_no_lifetimes() -> None:
    world = SampleWorld(limits=AggregateLimits(metric_bytes=2_000))
    pods = [pod_usage(f"pod-{index}", index) for index in range(20)]
    world.log.add(*(sample(second, pods=pods) for second in range(0, 91, 30)))
    metrics = read_metrics(world.apply(world.log.records).outputs)
    assert metrics
    assert all(not metric.pods and metric.lifetimes is None for metric in metrics)


def test_a_metric_that_no_reader_would_take_is_emitted_without_its_pods() -> None:
    world = SampleWorld(limits=AggregateLimits(metric_bytes=1_000))
    pods = [pod_usage(f"pod-{index}", index) for index in range(20)]
    result = world.send(sample(0), sample(30, pods=pods))
    (metric,) = read_metrics(result.outputs)
    assert metric.usage == {"cpu": 1_000}
    assert metric.pods == ()
    (refused,) = (read_letter(output) for output in result.dead_letters)
    assert (refused.offset, refused.category) == (1, "limit")
    assert "metric_bytes" in refused.reason


def _without_lifetimes(metric: NodeMetric) -> NodeMetric:
    """`test_lifetimes` covers lifetimes."""
    return metric.model_copy(update={"lifetimes": None})


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_metrics_equal_those_of_the_plain_rules(data: st.DataObject) -> None:
    records = data.draw(histories())
    subject = aggregate_stage(collecting=FAITHFUL, limits=LONG_MEMORY)
    nodes: dict[str, NaiveNode] = {}
    expected, collecting = [], FAITHFUL
    for record in records:
        message = decode("node-usage", record.value)
        if isinstance(message, CollectPolicyRecord):
            before, collecting = collecting, PoolRules(message.default, message.pools)
            for node in nodes.values():
                node.change(before)
        if not isinstance(message, NodeUsage):
            continue
        node = nodes.setdefault(message.node, NaiveNode())
        metric = node.take(message, collecting)
        expected += [metric] if metric else []
    result = subject.apply(records)
    if not subject.counts["set_back"]:
        metrics = read_metrics(result.outputs)
        assert [output.value for output in result.outputs] == [encode(metric) for metric in metrics]
        assert [_without_lifetimes(metric) for metric in metrics] == expected


@given(st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary())))
def test_any_bytes_end_in_dead_letters_and_do_not_stop_the_stage(
    garbage: list[tuple[bytes | None, bytes | None]],
) -> None:
    world = SampleWorld()
    for key, value in garbage:
        world.log.add_raw("node-usage", key, value)
    result = world.apply(world.log.records)
    assert [restore_record(read_letter(output)) for output in result.dead_letters] == garbage


def test_a_defect_affects_only_the_node_of_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failed node may be half updated, so it starts without samples, also after a restart."""
    add_sample = NodeWindows.add_sample

    def failing(self: NodeWindows, reading: SampleFigures, *rest: Any) -> Any:
        figures = add_sample(self, reading, *rest)
        if self.name == "bad" and reading.sampled_at_ms == START_MS + 10 * SECOND:
            raise ArithmeticError("half applied")
        return figures

    monkeypatch.setattr(NodeWindows, "add_sample", failing)
    log, subject, table = Log(), aggregate_stage(), dict[str, bytes]()
    samples = [sample(at, node=name) for at in range(0, 50, 10) for name in ("bad", "good")]
    result = subject.apply(log.add(*samples))
    apply_changes(table, result.rows)
    assert [read_letter(output).category for output in result.dead_letters] == ["internal"]
    assert [metric.node for metric in read_metrics(result.outputs)] == ["good"]
    more = log.add(*(sample(at, node="bad") for at in (50, 60)))
    reported = subject.apply(more).outputs
    assert [metric.updated_at_ms for metric in read_metrics(reported)] == [START_MS + 50 * SECOND]
    assert aggregate_stage(table).apply(more).outputs == reported
