"""Two short chaos runs; `make chaos` makes longer ones, with all scenarios."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.plan import SCENARIOS, Ending, Plan
from tests.chaos.run import PARTITIONS, run
from tests.conftest import skipped_where_unavailable


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    ("name", "endings"), [("two-workers", ("kill -9", "SIGTERM")), ("standbys", ("kill -9",))]
)
async def test_workers_that_are_killed_and_stopped_decide_everything_once(
    tmp_path: Path, name: str, endings: tuple[Ending, ...]
) -> None:
    scenario = next(entry for entry in SCENARIOS if entry.name == name)
    short = replace(scenario, endings=endings)
    with skipped_where_unavailable():
        outcome = await run(Plan(1, short, PARTITIONS), tmp_path, print)
    assert outcome.verdict.problems == []
    assert outcome.in_flight >= 1, "no batch was in flight: nothing was shown"
    figures = outcome.verdict.figures
    assert figures["pods"] > 100
    assert figures["placed"] >= figures["pods"]
    assert figures["dead letters"] > 0
    assert figures["metrics of samples"] > 0
    assert figures["samples refused"] > 0
    assert outcome.verdict.fullest_percent > 90, (
        "nodes were never full: no room could be taken twice"
    )
