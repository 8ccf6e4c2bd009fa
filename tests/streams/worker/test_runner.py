"""Requests for revoked partitions."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from connectors.kafka.reader import Record
from schemas.settings.connection import KafkaSettings
from streams.app import add_cluster
from streams.cluster.stage import ClusterStage
from streams.worker.consume.batches import BatchLimits
from streams.worker.consume.transport import WorkerApp
from streams.worker.report.metrics import Metrics
from streams.worker.runner import StageRunner

_TOPIC = "pod-lifecycle"


@pytest.fixture
def runner(tmp_path: Path) -> StageRunner:
    """The runner of an app that does not run; no broker answers."""
    kafka = KafkaSettings.local("127.0.0.1:1")
    app = WorkerApp("test", broker="kafka://127.0.0.1:1", datadir=str(tmp_path), store="memory://")
    limits = BatchLimits(records=10, bytes=1_000_000, wait_s=0.01)
    return add_cluster(app, kafka, limits, Metrics())


@pytest.mark.parametrize("closed", [True, False], ids=["and closed", "and not closed yet"])
async def test_no_records_are_applied_for_an_old_generation(
    runner: StageRunner, *, closed: bool
) -> None:
    """Otherwise the worker writes to a partition that it has given back."""
    asked_in = runner.partitions.generation
    if not closed:
        runner.partitions.stages[0] = ClusterStage(0, 4)
    await runner.takeover.on_revoked(None, set())
    until_s = time.monotonic() + 60
    ahead = runner.intake.apply_up_to(_TOPIC, 0, 5, until_s, asked_in)
    assert await asyncio.wait_for(ahead, 10) is False


@pytest.mark.parametrize(
    ("undelivered", "counted"), [(True, "healed_records"), (False, "records_read_ahead")]
)
async def test_undelivered_records_are_counted(
    runner: StageRunner,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    undelivered: bool,
    counted: str,
) -> None:
    async def pieces(*_: object) -> AsyncIterator[list[Record]]:
        yield [Record(_TOPIC, 0, offset, 0, None, None) for offset in range(3)]

    async def apply(*_: object) -> bool:
        return True

    monkeypatch.setattr("streams.worker.consume.intake.read_pieces", pieces)
    monkeypatch.setattr(runner.intake, "_apply_pieces", apply)
    runner.partitions.stages[0] = ClusterStage(0, 4)
    until_s = time.monotonic() + 60
    assert await runner.intake.apply_up_to(
        _TOPIC, 0, 3, until_s, runner.partitions.generation, undelivered=undelivered
    )
    value = runner._metrics.registry.get_sample_value
    counts = {
        name: value(f"loadstream_{name}_total", {"stage": "cluster", "topic": _TOPIC})
        for name in ("healed_records", "records_read_ahead")
    }
    assert counts == {"healed_records": 0, "records_read_ahead": 0, counted: 3}
    assert ("read 3 records from offset 0 on" in caplog.text) == undelivered
