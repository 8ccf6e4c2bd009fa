from collections import Counter

import pytest

from streams.placement.plugins.fit import NodeResourcesFit
from tests.simulation.simulation import Simulation, Violation
from tests.streams.cluster.run import decision

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_whole_path_holds_what_it_promises(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.run()
    # A run in which nothing waits and nothing is refused by load would prove little.
    found = Counter(decision(each).outcome for each in simulation.binder.bytes_of.values())
    assert found["placed"] > 100
    assert found["waiting"] > 100
    assert found["withdrawn"] > 0
    assert any(
        reason.reason.endswith("aggregated usage exceed threshold")
        for each in simulation.binder.bytes_of.values()
        for reason in decision(each).reasons
    )


def test_the_same_seed_is_the_same_run() -> None:
    runs = [Simulation(7, faulty_s=30), Simulation(7, faulty_s=30)]
    for simulation in runs:
        simulation.run()
    first, second = ([worker.outputs for worker in each.deciders] for each in runs)
    assert first == second


def test_a_fault_is_noticed_and_the_command_that_shows_it_again_is_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NodeResourcesFit, "mask", lambda self, prepared: None)
    monkeypatch.setattr(NodeResourcesFit, "reason", lambda self, prepared, row: None)
    with pytest.raises(Violation, match=r"again: python -m tests\.simulation\.run 1"):
        Simulation(1).run()
