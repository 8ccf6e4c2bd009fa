"""The simulated machines and the pods that run on them already."""

from collections import Counter

import pytest

from schemas.base.quantities import amount_of, nanos
from simulation.cluster.fitted import ALIBABA_2018
from simulation.cluster.machines import SHAPES, make_machines

BEGIN_MS = 1_772_409_600_000


@pytest.mark.parametrize("nodes", [1, 3, 7, 40, 1000])
def test_there_are_as_many_machines_as_wanted_with_names_of_their_own(nodes: int) -> None:
    machines = make_machines(nodes, 1, ALIBABA_2018, BEGIN_MS)
    assert len({machine.name for machine in machines}) == nodes
    assert {(m.millicores // 1000, m.memory_bytes >> 30) for m in machines} <= {
        (cores, gib) for cores, gib, _ in SHAPES
    }


def test_tempers_come_in_their_shares() -> None:
    counts = Counter(m.temper for m in make_machines(40, 1, ALIBABA_2018, BEGIN_MS))
    assert counts == {"busy": 32, "idle": 5, "hot": 3}


def test_there_is_always_a_hot_machine_to_be_avoided() -> None:
    tempers = [m.temper for m in make_machines(3, 5, ALIBABA_2018, BEGIN_MS)]
    assert "hot" in tempers
    assert "busy" in tempers


def test_the_same_seed_gives_the_same_machines_and_another_one_others() -> None:
    one, again, other = (make_machines(20, seed, ALIBABA_2018, BEGIN_MS) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_residents_leave_room_and_say_little_of_the_load() -> None:
    for machine in make_machines(40, 1, ALIBABA_2018, BEGIN_MS):
        cores = sum(resident.requests["cpu"] for resident in machine.residents)
        assert 0 < cores <= machine.millicores / 2
        assert sum(plan.carried.cpu for plan in machine.residents if plan.carried) == pytest.approx(
            0.85
        )
        assert all(resident.pod.node == machine.name for resident in machine.residents)


def test_a_node_state_says_what_the_machine_has() -> None:
    (machine,) = make_machines(1, 1, ALIBABA_2018, BEGIN_MS)
    state = machine.node_state("c", "list")
    amounts = {name: amount_of(name, nanos(text)) for name, text in state.allocatable.items()}
    assert amounts == machine.allocatable
    assert state.labels["kubernetes.io/hostname"] == machine.name
