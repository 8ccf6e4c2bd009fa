"""Benchmarks on a cluster, in small: what they measure is what was meant, and detail adds up."""

import asyncio
import os
from pathlib import Path
from threading import Timer

import pytest

from benchmarks import binding, messages, pod_latency, watch_and_collect
from benchmarks.cluster_rig import cpu_s, each_of
from benchmarks.figures import Unproven
from benchmarks.played_cluster import PlayedCluster
from connectors.kubernetes.sources.kubelet.exposition import samples
from connectors.kubernetes.sources.kubelet.resource import CPU
from schemas.base.refusals import Refusal
from schemas.topics.codec import decode, encode
from tests.conftest import skipped_where_unavailable


def test_a_process_that_is_gone_leaves_no_figure() -> None:
    assert cpu_s({"here": os.getpid()})["here"] > 0
    with pytest.raises(Unproven, match="gone ended by itself"):
        cpu_s({"here": os.getpid(), "gone": None})


async def test_all_items_are_worked_on_once_and_no_more_at_once_than_allowed() -> None:
    done: list[int] = []
    at_work = most = 0

    async def work(number: int) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0)
        done.append(number)
        at_work -= 1

    await each_of(range(20), 3, work)
    assert sorted(done) == list(range(20))
    assert most == 3


def test_decisions_of_the_bench_are_readable() -> None:
    made = [binding._decision({"name": f"p-{n}", "uid": f"u-{n}"}, n) for n in range(3)]
    read = [decode("placement-decisions", encode(each)) for each in made]
    assert not [each for each in read if isinstance(each, Refusal)]
    assert len({each.decision_id for each in made}) == 3


def test_waiting_counts_from_when_a_pod_was_due_and_leaves_out_the_first_ones() -> None:
    due = {"warm": 1.0, "a": 2.0, "b": 3.0}
    seen = {"warm": 9.0, "a": 2.010, "b": 3.030}
    assert pod_latency._waited(due, seen, {"warm"}, (0, 50, 100)) == [10.0, 20.0, 30.0]


def test_records_that_are_read_after_a_pod_was_seen_bound_are_waited_for() -> None:
    steps: dict[str, dict[str, float]] = {"placement-decisions": {"a": 2.0}}
    late = Timer(0.1, steps["placement-decisions"].update, [{"b": 3.0}])
    late.start()
    pod_latency._until_read({"a": 1.0, "b": 2.0}, steps)
    assert "b" in steps["placement-decisions"]
    late.join()


def test_a_played_kubelet_measures_the_pods_that_the_played_api_server_has_on_its_node() -> None:
    played = PlayedCluster(3, 2)
    answer = played.answer(messages.node_name(1), 1_700_000_000.0)
    named = {labels for labels, _, _ in samples(answer, b"pod" + CPU)}
    listed = [each for each in played._objects("/api/v1/pods", 0, 6) if b"node-00001" in each]
    assert len(named) == len(listed) == 2
    for labels in named:
        name = labels.partition(b'pod="')[2].partition(b'"')[0]
        assert any(name in each for each in listed)


@pytest.mark.broker
def test_a_small_cluster_is_listed_and_measured() -> None:
    with skipped_where_unavailable():
        listed = watch_and_collect.listing(20, 3)
        # All nodes must be measured meanwhile, also where a process stands still for some seconds.
        measured = watch_and_collect.collecting(20, 3, "1s", 15, with_others=False)
    assert listed["pods"] == 60
    assert listed["watch_rss_mib"] > 1
    assert set(measured["cpu_cores"]) == {"collect", "kafka", "played_cluster"}
    assert measured["nodes_per_s"] > 0


@pytest.mark.broker
@pytest.mark.control_plane
def test_pods_are_bound_by_the_binder_and_by_the_bare_client(control_plane_binary: Path) -> None:
    assert control_plane_binary.exists()
    with skipped_where_unavailable():
        measured = binding.run(20, 1)
    assert (measured["rounds"], measured["bindings_per_round"]) == (1, 20)
    assert set(measured["binder_cpu_us_per_binding"]) == {
        "bind", "kafka", "api_server", "etcd", "bench",
    }  # fmt: skip
    assert measured["share_of_bare_client"] > 0


@pytest.mark.broker
@pytest.mark.control_plane
def test_created_pods_are_seen_bound(control_plane_binary: Path) -> None:
    assert control_plane_binary.exists()
    with skipped_where_unavailable():
        measured = pod_latency.run(10, 10, 2)
    assert 0 < measured["p50_ms"] <= measured["p99_ms"] <= measured["p100_ms"]
    assert measured["scheduling_requests_p50_ms"] <= measured["placement_decisions_p50_ms"]
    assert set(measured["cpu_cores"]) >= {"watch", "worker", "bind", "kafka", "api_server"}
