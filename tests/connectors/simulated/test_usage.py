"""What is measured of a simulated cluster."""

import numpy as np
import pytest

from connectors.ports.at_once import all_at_once
from connectors.simulated.cluster import SimulatedCluster
from connectors.simulated.machines import Machine
from connectors.simulated.readings import Readings
from connectors.simulated.usage import SimulatedUsage, merged
from schemas.usage import MemoryReadings, NodeUsage
from tests.connectors.ports.usage_source_contract import UsageSourceContract, UsageSourceWorld
from tests.connectors.simulated.test_kubelet import GIB, NOW_MS

MINUTE_MS = 60_000


def _readings(minutes: int = 60) -> Readings:
    at_ms = np.repeat(NOW_MS + np.arange(minutes, dtype=np.int64) * MINUTE_MS, 2)
    machine = np.tile(np.arange(2, dtype=np.int64), minutes)
    return Readings(at_ms, machine, np.full(len(at_ms), 1000), np.full(len(at_ms), GIB))


def _cluster() -> SimulatedCluster:
    return SimulatedCluster("c", [Machine(name, 4000, 8 * GIB) for name in ("n1", "n2")], NOW_MS)


def _sample(cpu: int, memory: int, cached: int | None = None) -> NodeUsage:
    readings = None
    if cached is not None:
        readings = MemoryReadings(
            usage_without_page_cache_bytes=memory, usage_with_page_cache_bytes=cached
        )
    return NodeUsage(
        cluster="c", node="n", sampled_at_ms=NOW_MS, memory=readings,
        usage={"cpu": cpu, "memory": memory},
    )  # fmt: skip


class _World(UsageSourceWorld):
    cluster, nodes = "c", ("n1", "n2")

    def __init__(self) -> None:
        self.simulated = _cluster()
        self.source = SimulatedUsage(self.simulated, _readings())

    async def pass_time(self) -> None:
        self.simulated.advance(self.simulated.now_ms + MINUTE_MS)


class TestSimulatedUsage(UsageSourceContract):
    @pytest.fixture
    def world(self) -> UsageSourceWorld:
        return _World()


def test_each_reading_is_one_sample_and_none_comes_before_its_time() -> None:
    cluster, readings = _cluster(), _readings()
    source = SimulatedUsage(cluster, readings)
    samples: list[NodeUsage] = []
    while cluster.now_ms < NOW_MS + 60 * MINUTE_MS:
        cluster.advance(cluster.now_ms + 7_000)
        samples += all_at_once(source.read())
        assert samples[-1].sampled_at_ms <= cluster.now_ms
    assert [sample.sampled_at_ms for sample in samples] == readings.at_ms.tolist()


def test_samples_of_a_time_in_which_nobody_read_are_left_out_if_they_are_too_old() -> None:
    cluster = _cluster()
    source = SimulatedUsage(cluster, _readings(), backlog_max_ms=5 * MINUTE_MS)
    cluster.advance(NOW_MS + 30 * MINUTE_MS)
    times = [sample.sampled_at_ms - NOW_MS for sample in all_at_once(source.read())]
    assert times == [minute * MINUTE_MS for minute in range(26, 31) for _ in range(2)]


def test_a_live_machine_has_the_load_that_was_measured_and_keeps_it_as_its_reading() -> None:
    cluster, readings = _cluster(), _readings()
    source = SimulatedUsage(
        cluster, readings, live=1, measured=lambda: _sample(700, 2 * GIB, 3 * GIB)
    )
    ordinary, live = all_at_once(source.read())
    assert (ordinary.usage["cpu"], ordinary.memory) == (1000, None)
    assert live.usage == {"cpu": 700, "memory": 2 * GIB}
    assert readings.base(1) == live.usage


def test_pods_are_added_to_every_reading_of_memory() -> None:
    sample = merged(_sample(900, 130), _sample(500, 100, 160))
    assert sample.memory is not None
    assert sample.memory.usage_without_page_cache_bytes == 130
    assert sample.memory.usage_with_page_cache_bytes == 190
    assert sample.usage == {"cpu": 900, "memory": 130}
