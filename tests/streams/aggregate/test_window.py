import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streams.aggregate.window import SampleWindow


class WindowMachine(RuleBasedStateMachine):
    """A window against a plain map from time to what was added."""

    def __init__(self) -> None:
        super().__init__()
        self.window = SampleWindow()
        self.model: dict[int, tuple[int, int, dict[str, int]]] = {}

    @rule(time=st.integers(0, 200), row=st.integers(0, 5), amount=st.integers(-1, 10))
    def add(self, time: int, row: int, amount: int) -> None:
        if time in self.model:
            assert self.window.digest_at(time) == self.model[time][0]
            return
        assert self.window.digest_at(time) is None
        digest = 1_000 + time
        figures = [amount] * 2 * len(self.window.resources)
        self.window.add(time, digest, row, figures)
        self.model[time] = (digest, row, dict.fromkeys(self.window.resources, amount))

    @rule(before=st.integers(0, 200))
    def drop(self, before: int) -> None:
        gone = sorted(time for time in self.model if time < before)
        assert self.window.drop(before) == [self.model.pop(time)[1] for time in gone]

    @precondition(lambda self: len(self.window.resources) < 4)
    @rule()
    def widen(self) -> None:
        more = f"r{max([int(name[1:]) for name in self.window.resources], default=0) + 1}"
        self.window.widen([more])
        for _, _, amounts in self.model.values():
            amounts[more] = -1

    @precondition(lambda self: self.window.resources)
    @rule(data=st.data())
    def narrow(self, data: st.DataObject) -> None:
        keep = sorted(data.draw(st.sets(st.sampled_from(range(len(self.window.resources))))))
        self.window.narrow(keep)
        for _, _, amounts in self.model.values():
            for name in set(amounts) - set(self.window.resources):
                del amounts[name]

    @invariant()
    def holds_what_was_added(self) -> None:
        times = sorted(self.model)
        assert self.window.times.tolist() == times
        assert len(self.window) == len(times)
        assert self.window.newest_ms == (times[-1] if times else None)
        assert self.window.rows == [self.model[time][1] for time in times]
        expected = [
            [self.model[time][2][name] for name in self.window.resources for _ in range(2)]
            for time in times
        ]
        assert self.window.figures().tolist() == expected


WindowMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestWindow = WindowMachine.TestCase


def test_memory_is_bounded_by_what_the_window_holds() -> None:
    window = SampleWindow()
    window.widen(["cpu", "memory"])
    for time in range(100_000):
        window.add(time, 0, 0, (1, 1, 1, 1))
        window.drop(time - 180)
    assert len(window) == 181
    assert window.nbytes <= 4 * 181 * (3 + 4) * 8


def test_many_late_samples_are_put_in_their_places() -> None:
    window = SampleWindow()
    window.widen(["cpu"])
    order = np.random.default_rng(3).permutation(500).tolist()
    for time in order:
        window.add(time, time, 0, (time, -1))
    assert window.times.tolist() == list(range(500))
    assert window.figures(250).tolist() == [[time, -1] for time in range(250, 500)]
