import random

from streams.moves.deadlines import Deadlines


def test_a_name_is_due_at_its_latest_deadline() -> None:
    deadlines = Deadlines()
    deadlines.set(10, "sooner")
    deadlines.set(5, "sooner")
    deadlines.set(5, "later")
    deadlines.set(10, "later")
    assert deadlines.pop_due(4) == []
    assert deadlines.pop_due(5) == ["sooner"]
    assert deadlines.pop_due(20) == ["later"]
    deadlines.set(30, "sooner")
    assert deadlines.pop_due(30) == ["sooner"]


def test_postponed_names_use_no_more_memory() -> None:
    deadlines, draw = Deadlines(), random.Random(1)
    at_ms: dict[str, int] = {}
    for now_ms in range(20_000):
        name = f"pod-{draw.randrange(50)}"
        at_ms[name] = now_ms + draw.randrange(10_000)
        deadlines.set(at_ms[name], name)
        due = deadlines.pop_due(now_ms)
        assert due == sorted(key for key in at_ms if at_ms[key] <= now_ms)
        for key in due:
            del at_ms[key]
    assert len(deadlines) < 200
