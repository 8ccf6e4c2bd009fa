from streams.aggregate.window import SampleWindow


def test_memory_is_bounded_by_what_the_window_holds() -> None:
    window = SampleWindow()
    window.widen(["cpu", "memory"])
    for time in range(100_000):
        window.add(time, 0, 0, (1, 1, 1, 1))
        window.drop(time - 180)
    assert len(window) == 181
    assert window.times.base.nbytes <= 4 * 181 * (3 + 4) * 8  # type: ignore[union-attr]
