"""What is measured of a simulated cluster."""

import pytest

from connectors.ports.at_once import all_at_once
from schemas.messages.usage import MemoryReadings, NodeUsage
from simulation.cluster.cluster import SimulatedCluster
from simulation.cluster.usage import SimulatedUsage
from tests.connectors.ports.sink_contract import NOW_MS
from tests.connectors.ports.usage_source_contract import UsageSourceContract, UsageSourceWorld
from tests.simulation.cluster.builders import GIB, MINUTE_MS, machines, readings


def _cluster() -> SimulatedCluster:
    return SimulatedCluster("c", machines(2, 4000, 8 * GIB), NOW_MS)


def _sample(cpu: int, memory: int, cached: int | None = None) -> NodeUsage:
    memory_read = None
    if cached is not None:
        memory_read = MemoryReadings(
            usage_without_page_cache_bytes=memory, usage_with_page_cache_bytes=cached
        )
    return NodeUsage(
        cluster="c", node="n", sampled_at_ms=NOW_MS, memory=memory_read,
        usage={"cpu": cpu, "memory": memory},
    )  # fmt: skip


class _World(UsageSourceWorld):
    cluster, nodes = "c", ("n1", "n2")

    def __init__(self) -> None:
        self.simulated = _cluster()
        self.source = SimulatedUsage(self.simulated, readings(60, 1000, 1000))

    async def pass_time(self) -> None:
        self.simulated.advance(self.simulated.now_ms + MINUTE_MS)


class TestSimulatedUsage(UsageSourceContract):
    @pytest.fixture
    def world(self) -> UsageSourceWorld:
        return _World()


def test_each_reading_is_one_sample_and_none_comes_before_its_time() -> None:
    cluster, measured = _cluster(), readings(60, 1000, 1000)
    source = SimulatedUsage(cluster, measured)
    samples: list[NodeUsage] = []
    while cluster.now_ms < NOW_MS + 60 * MINUTE_MS:
        cluster.advance(cluster.now_ms + 7_000)
        samples += all_at_once(source.read())
        assert samples[-1].sampled_at_ms <= cluster.now_ms
    assert [sample.sampled_at_ms for sample in samples] == measured.at_ms.tolist()


def test_samples_of_a_time_in_which_nobody_read_are_left_out_if_they_are_too_old() -> None:
    cluster = _cluster()
    source = SimulatedUsage(cluster, readings(60, 1000, 1000), backlog_max_ms=5 * MINUTE_MS)
    cluster.advance(NOW_MS + 30 * MINUTE_MS)
    times = [sample.sampled_at_ms - NOW_MS for sample in all_at_once(source.read())]
    assert times == [minute * MINUTE_MS for minute in range(26, 31) for _ in range(2)]
