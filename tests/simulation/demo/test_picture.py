"""The picture: drawn into files, also where there is little to draw."""

from pathlib import Path

import pytest

from simulation.demo.picture import draw
from simulation.demo.rebalance_summary import usage_staying
from simulation.demo.scenario import simulated_scenario
from simulation.demo.session import Session
from simulation.demo.summary import usage_by_requests
from tests.simulation.demo.inmemory import InMemoryWorker

pytestmark = pytest.mark.slow


def _files(directory: Path) -> list[Path]:
    return [directory / "usage.png", directory / "usage.svg"]


def test_the_picture_is_drawn_as_png_and_svg(finished: Session, tmp_path: Path) -> None:
    png, svg = _files(tmp_path)
    draw(finished, usage_by_requests(finished), usage_staying(finished), [png, svg])
    assert png.read_bytes().startswith(b"\x89PNG")
    assert png.stat().st_size > 50_000
    text = svg.read_text()
    assert "<svg" in text
    for machine in finished.scenario.machines:
        assert machine.name in text


@pytest.mark.parametrize("minutes", [2, 20])
def test_a_run_that_hardly_began_has_a_picture_too(minutes: int, tmp_path: Path) -> None:
    worker = InMemoryWorker(simulated_scenario(60, 1, 4))
    session = worker.run(worker.session.scenario.begin_ms + minutes * 60_000)
    files = _files(tmp_path)
    draw(session, usage_by_requests(session), usage_staying(session), files)
    assert all(file.stat().st_size > 10_000 for file in files)
