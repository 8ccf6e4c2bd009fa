import pytest

from streams.cluster import inventory_rows
from streams.cluster.inventory_rows import PARTS_BYTES_MAX, encode_held
from streams.pods.demand import pod_demand
from streams.pods.held import Held
from streams.stage.sized_cache import SizedCache
from tests.streams.cluster.builders import START_MS, pod


def test_no_more_parts_than_the_limit_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_rows, "_PARTS", SizedCache(PARTS_BYTES_MAX, 100))
    for count in range(300):
        each = pod("pod", cpu=f"0.{count:04}")
        encode_held(Held(each, pod_demand(pod()), START_MS), None)
    assert len(inventory_rows._PARTS) <= 100
