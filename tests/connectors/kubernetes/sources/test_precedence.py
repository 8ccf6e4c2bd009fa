"""Choice of one source per node."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kubernetes.sources.precedence import Precedence
from schemas.messages.metrics import NodeMetric
from schemas.messages.usage import NodeUsage, PodUsage

T0 = 1_770_000_000_000


def _sample(at_ms: int, pods: dict[str, dict[str, int]] | None = None, **usage: int) -> NodeUsage:
    return NodeUsage(
        cluster="c", node="n", sampled_at_ms=T0 + at_ms,
        usage=usage or {"cpu": 1, "memory": 1},
        pods=tuple(PodUsage(namespace="s", name=uid, uid=uid, usage=amounts) for uid, amounts in (pods or {}).items()),
    )  # fmt: skip


class _Three:
    """Three sources, each of which is fresh for 30 s."""

    def __init__(self) -> None:
        self.counts: list[Counter[str]] = [Counter(), Counter(), Counter()]
        self.precedence = Precedence(
            [30_000] * 3, lambda index, decision: self.counts[index].update((decision,))
        )

    def offer(
        self, source: int, at_ms: int, message: NodeUsage | NodeMetric | None = None
    ) -> object:
        return self.precedence.offer(source, message or _sample(at_ms), T0 + at_ms)


def test_only_the_first_source_of_a_node_is_used() -> None:
    three = _Three()
    assert three.offer(1, 0) is not None  # no other source has sent anything yet
    assert three.offer(2, 1_000) is None
    assert three.offer(0, 2_000) is not None
    assert three.offer(1, 3_000) is None
    assert three.offer(0, 4_000) is not None
    assert three.counts[1] == {"took_over": 1, "held_back": 1}


def test_a_source_keeps_its_node_while_a_resource_is_missing() -> None:
    three = _Three()
    assert three.offer(0, 0, _sample(0, cpu=1)) is None
    assert three.offer(0, 1_000) is not None
    assert three.offer(0, 2_000, _sample(2_000, cpu=1)) is not None
    assert three.offer(1, 3_000) is None
    filled = three.offer(0, 4_000, _sample(4_000, cpu=2))
    assert isinstance(filled, NodeUsage)
    assert filled.usage == {"cpu": 2, "memory": 1}


def test_the_next_source_replaces_a_silent_one_until_it_returns() -> None:
    three = _Three()
    three.offer(0, 0)
    assert three.offer(1, 30_000) is None
    assert three.offer(1, 30_001) is not None
    assert three.offer(2, 30_002) is None
    assert three.offer(0, 40_000) is not None
    assert three.offer(1, 41_000) is None


def test_aggregates_from_a_fast_clock_do_not_block_the_next_source() -> None:
    three = _Three()
    ahead = NodeMetric(
        cluster="c", node="n", updated_at_ms=T0 + 86_400_000, usage={"cpu": 1, "memory": 1}
    )
    assert three.offer(0, 0, ahead) == ahead
    assert three.offer(1, 30_001) is not None
    assert three.counts[1] == {"took_over": 1}


def test_other_sources_add_only_missing_resources() -> None:
    three = _Three()
    three.offer(0, 0)
    gpu = _sample(1_000, {"a": {"nvidia.com/gpu": 1, "cpu": 9}, "b": {"cpu": 7}}, **{"nvidia.com/gpu": 3, "cpu": 9})  # fmt: skip
    assert three.offer(1, 1_000, gpu) is None
    filled = three.offer(0, 2_000, _sample(2_000, {"a": {"cpu": 2}}, cpu=5, memory=6))
    assert isinstance(filled, NodeUsage)
    assert filled.usage == {"cpu": 5, "memory": 6, "nvidia.com/gpu": 3}
    assert {pod.uid: pod.usage for pod in filled.pods} == {
        "a": {"cpu": 2, "nvidia.com/gpu": 1},
        "b": {"cpu": 7},
    }
    assert three.counts[0]["filled_in"] == 1


def test_a_pod_with_different_uids_in_two_sources_counts_once() -> None:
    three = _Three()
    three.offer(0, 0)
    mirrored = PodUsage(namespace="s", name="etcd", uid="of-the-mirror", usage={"cpu": 3})
    other = PodUsage(namespace="t", name="etcd", uid="of-another", usage={"cpu": 4})
    three.offer(1, 1, _sample(1).model_copy(update={"pods": (mirrored, other)}))
    static = PodUsage(namespace="s", name="etcd", uid="hash-of-the-manifest", usage={"cpu": 2})
    filled = three.offer(0, 2_000, _sample(2_000).model_copy(update={"pods": (static,)}))
    assert isinstance(filled, NodeUsage)
    assert filled.pods == (static, other)


def test_old_values_are_not_added() -> None:
    three = _Three()
    three.offer(0, 0)
    three.offer(1, 0, _sample(0, gpu=3))
    filled = three.offer(0, 30_001)
    assert isinstance(filled, NodeUsage)
    assert "gpu" not in filled.usage


def test_a_sample_without_cpu_or_memory_is_never_the_main_source() -> None:
    three = _Three()
    assert three.offer(0, 0, _sample(0, gpu=3)) is None
    assert three.offer(0, 0, _sample(0, cpu=3)) is None
    filled = three.offer(1, 1_000)
    assert isinstance(filled, NodeUsage)
    assert filled.usage == {"cpu": 1, "memory": 1}  # the sample of the same source was replaced


def test_samples_of_a_node_with_aggregates_are_not_sent() -> None:
    three = _Three()
    aggregate = NodeMetric(cluster="c", node="n", updated_at_ms=T0, usage={"cpu": 1})
    assert three.offer(0, 0, aggregate) is aggregate
    assert three.offer(1, 1_000) is None
    # Without aggregates, samples are sent at once.
    gone = NodeMetric(cluster="c", node="n", removed=True)
    assert three.offer(0, 2_000, gone) is gone
    assert three.offer(1, 3_000) is not None


@pytest.mark.parametrize(
    "left_behind",
    [
        NodeMetric(cluster="c", node="n"),
        NodeMetric(cluster="c", node="n", updated_at_ms=T0 - 5_000),
        NodeMetric(cluster="c", node="n", updated_at_ms=T0 - 86_400_000, usage={"cpu": 1}),
    ],
)
def test_an_old_aggregate_does_not_block_samples(left_behind: NodeMetric) -> None:
    """Koordinator's manager creates an aggregate for each node, even if no agent runs there."""
    three = _Three()
    assert three.offer(0, 0, left_behind) is None
    assert three.offer(1, 1) is not None
    assert three.offer(0, 2, left_behind) is None
    assert three.offer(1, 3) is not None
    fresh = NodeMetric(cluster="c", node="n", updated_at_ms=T0, usage={"cpu": 1, "memory": 1})
    assert three.offer(0, 4, fresh) is not None
    assert three.offer(0, 29_000, left_behind) is not None, "the speaker has no figures any more"
    assert three.offer(1, 30_004) is None
    assert three.offer(1, 30_005) is not None


def test_the_only_source_reports_missing_metrics() -> None:
    alone = Precedence([30_000], lambda index, decision: None)
    assert alone.offer(0, NodeMetric(cluster="c", node="n"), T0) is not None


def test_only_the_source_of_a_node_reports_a_removed_metric() -> None:
    three = _Three()
    three.offer(0, 0)
    assert three.offer(1, 1, NodeMetric(cluster="c", node="n", removed=True)) is None
    assert three.offer(0, 1_000) is not None


def test_nodes_that_are_gone_are_forgotten() -> None:
    three = _Three()
    three.offer(0, 5_000)
    three.precedence.keep_only([])
    assert three.offer(2, 1_000) is not None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60_000), st.integers(-5_000, 0))))
def test_times_of_a_node_never_go_back_and_no_time_is_sent_twice(
    offers: list[tuple[int, int, int]],
) -> None:
    three, now_ms, sent = _Three(), 0, []
    for source, pause_ms, late_ms in offers:
        now_ms += pause_ms
        message = three.offer(source, now_ms, _sample(now_ms + late_ms))
        if isinstance(message, NodeUsage):
            sent.append(message.sampled_at_ms)
    assert sent == sorted(set(sent))
