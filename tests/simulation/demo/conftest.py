"""One run of the demo in memory, shared by the tests that only look at it."""

import pytest

from simulation.demo.scenario import simulated_scenario
from simulation.demo.session import Session
from tests.simulation.demo.inmemory import InMemoryWorker

#: Seconds of the shared run: four simulated hours.
SECONDS = 10


@pytest.fixture(scope="session")
def worker() -> InMemoryWorker:
    """A run of twelve nodes that has come to its end; not to be changed."""
    worker = InMemoryWorker(simulated_scenario(12, 3, SECONDS, "tests do not look at it"))
    worker.run()
    return worker


@pytest.fixture
def finished(worker: InMemoryWorker) -> Session:
    """The session of that run."""
    return worker.session
