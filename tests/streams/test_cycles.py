"""What the stages need no more is free at once: nothing of it holds on to itself in a circle.

A worker rarely collects cycles (`streams.worker.event_loop`).
"""

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.aggregate.partition import PartitionState
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.stage.records import Stage
from tests.histories.history import draw_history
from tests.histories.log import PARTITION, PARTITIONS
from tests.histories.run import run


@pytest.fixture
def looking() -> Iterator[None]:
    """Keep objects that only reference cycles hold, so that the test can name them."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def aggregate_stage() -> Stage:
    state = PartitionState(PARTITION, PoolRules(), first=True)
    return AggregateStage(state, PARTITIONS, AggregateLimits())


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_stage_has_no_reference_cycles(seed: int, request: pytest.FixtureRequest) -> None:
    records = run(draw_history(seed, 150)).records
    request.getfixturevalue("looking")
    for stage in (ClusterStage(PARTITION, PARTITIONS), aggregate_stage()):
        for record in records:
            if (record.topic == "node-usage") == isinstance(stage, AggregateStage):
                stage.apply([record])
                stage.prepare()
    del stage
    gc.collect()
    leaked = [item for item in gc.garbage if type(item).__module__.startswith("streams.")]
    assert Counter(type(item).__qualname__ for item in leaked) == {}
