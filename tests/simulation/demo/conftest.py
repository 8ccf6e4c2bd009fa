"""One run of the demo in memory, shared by the tests that only look at it."""

import pytest

from simulation.demo.scenario import simulated_scenario
from simulation.demo.session import Session
from tests.simulation.demo.inmemory import InMemoryWorker

#: Simulated hours of the shared run.
HOURS = 4


@pytest.fixture(scope="session")
def worker() -> InMemoryWorker:
    """A run of twelve nodes that has come to its end; not to be changed."""
    worker = InMemoryWorker(simulated_scenario(12, 3, HOURS))
    worker.run()
    return worker


@pytest.fixture
def finished(worker: InMemoryWorker) -> Session:
    """The session of that run."""
    return worker.session
