import random

from streams.moves.deadlines import Deadlines


def test_a_name_is_looked_at_when_it_was_said_last() -> None:
    deadlines = Deadlines()
    deadlines.expect(10, "sooner")
    deadlines.expect(5, "sooner")
    deadlines.expect(5, "later")
    deadlines.expect(10, "later")
    assert deadlines.due(4) == []
    assert deadlines.due(5) == ["sooner"]
    assert deadlines.due(20) == ["later"]
    deadlines.expect(30, "sooner")
    assert deadlines.due(30) == ["sooner"]


def test_names_that_are_put_off_again_and_again_take_no_more_room() -> None:
    deadlines, draw = Deadlines(), random.Random(1)
    at_ms: dict[str, int] = {}
    for now_ms in range(20_000):
        name = f"pod-{draw.randrange(50)}"
        at_ms[name] = now_ms + draw.randrange(10_000)
        deadlines.expect(at_ms[name], name)
        due = deadlines.due(now_ms)
        assert due == sorted(each for each in at_ms if at_ms[each] <= now_ms)
        for each in due:
            del at_ms[each]
    assert len(deadlines) < 200
