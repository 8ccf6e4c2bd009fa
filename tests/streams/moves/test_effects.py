"""The verdict on an eviction, and when a pool is held back."""

from typing import Any

import pytest

from schemas.policy.lownodeload import DEFAULT_POOL
from streams.moves.effects import Effects
from tests.streams.cluster.builders import CLUSTER, at
from tests.streams.moves.builders import pod, policy, ref
from tests.streams.moves.harness import Story


def test_a_move_that_helped_is_reported_with_its_figures() -> None:
    story = Story()
    story.evict(0)
    story.see("a", 8_200, 0)
    story.arrive(12)
    story.ready(21)
    story.see("a", 6_450, 120)
    story.see("b", 4_800, 120)
    story.see("peer", 8_300, 0)
    story.see("peer", 8_300, 120)
    assert story.tick(599) == []
    made = story.verdict(600)
    assert (made.verdict, made.bounced, made.dry_run) == ("helped", "", False)
    assert (made.cooled_after_ms, made.ready_after_ms, made.overloaded_after_ms) == (
        120_000,
        21_000,
        None,
    )
    assert (made.target_node, made.replacement) == ("b", ref("new"))
    assert made.message == (
        "a cooled to cpu 64.5 % of at most 70.0 %; hot in 1 of 2 rounds, nodes as hot that were left "
        "alone in 2 of 2; b stayed at cpu 48.0 % of at most 70.0 %; the "
        "replacement was ready after 21 s"
    )
    assert story.tick(601) == []
    assert not story.effects.followed


def test_a_source_that_turns_hot_again_was_not_helped_unless_others_were_hot_for_longer() -> None:
    for others, verdict in ((6_000, "source hot"), (9_000, "helped")):
        story = Story()
        story.evict(0)
        story.arrive(1, ready=True)
        for second, cpu, peer in ((60, 6_000, 9_000), (120, 9_000, others)):
            story.see("a", cpu, second)
            story.see("peer", peer, second)
        made = story.verdict(600)
        assert made.verdict == verdict
        assert made.cooled_after_ms == 60_000
        hot = "2 of 2" if others > 7_000 else "1 of 2"
        assert made.message.startswith(
            "a is still hot with cpu 90.0 % of at most 70.0 %; hot in 1 of 2 rounds, nodes as hot "
            f"that were left alone in {hot}"
        )


def test_a_spell_that_ends_by_itself_everywhere_is_no_help() -> None:
    story = Story()
    story.evict(0)
    story.arrive(1, ready=True)
    story.see("a", 6_000, 60)
    story.see("peer", 6_500, 60)
    made = story.verdict(600)
    assert made.verdict == "no difference"
    assert made.comparison is not None
    assert (made.comparison.rounds, made.comparison.peer_rounds) == (1, 1)


def test_without_a_node_that_was_as_hot_and_left_alone_nothing_is_known() -> None:
    story = Story()
    story.evict(0, peers=())
    story.arrive(1, ready=True)
    story.see("a", 6_000, 60)
    story.see("peer", 9_000, 60)
    made = story.verdict(600)
    assert made.verdict == "unknown"
    assert made.message.endswith("hot in 0 of 1 rounds, and no other node was as hot")


@pytest.mark.parametrize(
    ("usage", "verdict"),
    [({}, "unknown"), ({"cpu": 2_000}, "unknown"), ({"cpu": 2_000, "memory": 0}, "helped")],
)
def test_a_node_that_a_pod_leaves_is_compared_with_if_what_the_pod_used_is_known(
    usage: dict[str, int], verdict: str
) -> None:
    story = Story()
    story.evict(0)
    story.arrive(1, ready=True)
    story.see("a", 6_000, 60)
    story.evict(70, "other", source_node="peer", owner="another", usage=usage)
    story.see("peer", 6_000, 370)
    made = story.verdict(600)
    assert made.verdict == verdict


def test_a_replacement_that_is_moved_on_is_not_worked_out() -> None:
    """Its arrival is no longer followed: its departure alone would be half of the story."""
    story = Story()
    known = {"cpu": 2_000, "memory": 0}
    story.evict(0, usage=known, peers=())
    story.arrive(10, ready=True)
    story.evict(20, "judged", source_node="c", owner="third", peers=("b",))
    story.evict(70, "new", source_node="b", usage=known)
    assert story.verdict(71).verdict == "bounced"
    story.see("c", 6_000, 120)
    story.see("b", 6_000, 120)
    (row,) = [each for each in story.effects.followed.rows.values() if each.pod.uid == "judged"]
    assert (row.comparison.rounds, row.comparison.peer_rounds) == (1, 0)


def test_the_resource_furthest_above_its_threshold_speaks_for_the_node() -> None:
    story = Story()
    story.evict(0)
    story.see("a", 6_900, 60, memory=950)
    assert story.verdict(600).message == (
        "a is still hot with memory 95.0 % of at most 80.0 %; hot in 1 of 1 rounds, and none of 1 nodes "
        "as hot could be compared with"
    )


def test_a_target_that_rises_above_its_threshold_tells_against_the_move() -> None:
    story = Story()
    story.evict(0)
    story.arrive(1, ready=True)
    story.see("a", 6_000, 60)
    story.see("b", 7_100, 60)
    story.see("b", 5_000, 120)
    made = story.verdict(600)
    assert (made.verdict, made.overloaded_after_ms) == ("target hot", 60_000)
    assert (
        made.message == "b rose above its threshold after 60 s; then cpu 50.0 % of at most 70.0 %"
    )


def test_a_replacement_that_never_comes_or_is_never_ready_tells_against_the_move() -> None:
    story = Story()
    story.evict(0)
    story.see("a", 6_000, 60)
    assert story.verdict(600).message == "no replacement came within 600 s"
    story.evict(1000, "other")
    story.see("a", 6_000, 1060)
    story.arrive(1010)
    made = story.verdict(1600)
    assert (made.verdict, made.message) == ("not ready", "new was not ready within 600 s")


def test_a_replacement_that_comes_back_is_reported_at_once() -> None:
    story = Story()
    story.evict(0)
    story.arrive(5, node="a")
    made = story.verdict(6)
    assert (made.verdict, made.bounced) == ("bounced", "came back")
    assert made.message == "the replacement new came back to a"


def test_a_replacement_that_is_evicted_again_is_reported_at_once() -> None:
    story = Story()
    story.evict(0)
    story.arrive(5, ready=True)
    story.evict(100, "new", source_node="b")
    first = story.verdict(101)
    assert (first.pod, first.verdict, first.bounced) == (ref("old"), "bounced", "evicted again")
    assert list(story.effects.followed.rows) == ["e-new-0000000"]


def test_an_eviction_that_is_only_said_tells_what_happens_without_it() -> None:
    story = Story()
    story.evict(0, dry_run=True)
    story.arrive(5)
    story.see("a", 6_500, 60)
    made = story.verdict(600)
    assert (made.verdict, made.dry_run, made.replacement) == ("dry", True, None)
    assert made.message == "not executed; without it, a cooled to cpu 65.0 % of at most 70.0 %"


def test_a_source_that_no_round_looks_at_gives_no_verdict() -> None:
    story = Story(verdicts=1)
    story.evict(0)
    story.arrive(5, ready=True)
    made = story.verdict(600)
    assert (made.verdict, made.message) == ("unknown", "no round has looked at a within 600 s")
    assert story.effects.backing_off(DEFAULT_POOL, at(600)) is None


def test_replacements_go_to_evictions_in_their_order_and_never_twice() -> None:
    story = Story()
    story.evict(0, "one")
    story.evict(1, "two", source_node="c")
    story.arrive(5, "x", "b")
    story.arrive(5, "x", "b")
    story.arrive(6, "y", "d")
    story.arrive(7, "z", "e")
    targets = {row.pod.uid: row.target_node for row in story.effects.followed.rows.values()}
    assert targets == {"one": "b", "two": "d"}
    assert story.effects.watched() == [
        (DEFAULT_POOL, name, "node") for name in ("a", "b", "c", "d", "peer")
    ]


def test_a_replacement_that_is_gone_before_it_was_ready_is_replaced_in_turn() -> None:
    story = Story()
    story.evict(0)
    story.arrive(5, "x")
    story.effects.gone("x")
    story.arrive(9, "y", "c", ready=True)
    story.see("a", 6_000, 60)
    story.see("peer", 9_000, 60)
    made = story.verdict(600)
    assert (made.verdict, made.target_node, made.ready_after_ms) == ("helped", "c", 9_000)


def test_a_command_is_followed_once_and_no_more_than_the_limit() -> None:
    effects = Effects(CLUSTER, policy(), followed_max=2)
    story = Story()
    story.effects = effects
    for uid in ("one", "one", "two", "three"):
        story.evict(0, uid)
    assert list(effects.followed.rows) == ["e-one-0000000", "e-two-0000000"]
    assert effects.pools.rows[DEFAULT_POOL].counts == {"unfollowed": 1}


#: Held back after four verdicts, at first for 1000 s.
_HELD_BACK: dict[str, Any] = {
    "verdicts": 4, "minHelpedPercent": 50, "initialBackoffSeconds": 1000,
    "maxBackoffSeconds": 3000, "followSeconds": 60,
}  # fmt: skip


class TestBackOff:
    """A pool whose moves do not help."""

    def move(self, story: Story, seconds: float, *, helps: bool) -> None:
        """A move from its eviction to its verdict, 60 s later."""
        uid = f"pod-{seconds:g}"
        story.evict(seconds, uid)
        story.arrive(seconds + 1, f"new-{uid}", ready=True)
        story.see("a", 6_000 if helps else 9_000, seconds + 30)
        story.see("peer", 9_000, seconds + 30)
        assert story.verdict(seconds + 60).verdict == ("helped" if helps else "source hot")

    def held(self, story: Story, seconds: float) -> str | None:
        return story.effects.backing_off(DEFAULT_POOL, at(seconds))

    def test_begins_when_too_few_of_the_last_moves_helped(self) -> None:
        story = Story(**_HELD_BACK)
        for number, helps in enumerate((True, True, False, False)):
            self.move(story, number * 100, helps=helps)
        assert self.held(story, 360) is None
        self.move(story, 400, helps=False)
        assert self.held(story, 460) == (
            "1 of the last 4 moves of the pool helped, at least 50 % must; held back for 1000 s more, "
            "time 1 in a row"
        )
        assert self.held(story, 1460) is None
        assert story.effects.backing_off("another", at(460)) is None
        assert story.effects.pools.rows[DEFAULT_POOL].counts == {"helped": 2, "source hot": 3}

    def test_doubles_with_each_further_move_in_vain_and_ends_with_one_that_helps(self) -> None:
        story = Story(**_HELD_BACK)
        for number in range(4):
            self.move(story, number * 100, helps=False)
        now = 360.0
        for wait in (1000, 2000, 3000, 3000):
            assert self.held(story, now + wait - 1) is not None
            assert self.held(story, now + wait) is None
            self.move(story, now + wait, helps=False)
            now += wait + 60
        self.move(story, now + 3000, helps=True)
        assert self.held(story, now + 3060) is None
        for number in range(3):
            self.move(story, now + 3100 + number * 100, helps=False)
        # The slate was clean: only now four are there, and one of them helped.
        assert "time 1 in a row" in str(self.held(story, now + 3361))

    def test_does_not_end_with_a_move_from_before_it_began(self) -> None:
        story = Story(**_HELD_BACK)
        for number in range(4):
            story.evict(number, f"pod-{number}")
        story.evict(30, "late", owner="another", source_node="b")
        story.effects.arrived("another", pod("new", "another"), "c", at(31))
        story.see("a", 9_000, 20)
        story.see("b", 6_000, 40)
        story.see("peer", 9_000, 40)
        assert len(story.tick(63)) == 4
        assert self.held(story, 70) is not None
        assert story.verdict(90).verdict == "helped"
        assert self.held(story, 91) is not None

    def test_does_not_double_for_moves_from_before_it_began(self) -> None:
        story = Story(**_HELD_BACK)
        for number in range(4):
            story.evict(number, f"pod-{number}")
        story.evict(30, "late")
        story.see("a", 9_000, 20)
        assert len(story.tick(63)) == 4
        before = story.effects.pools.rows[DEFAULT_POOL]
        assert before.backoffs == 1
        assert story.verdict(90).verdict == "source hot"
        assert story.effects.pools.rows[DEFAULT_POOL].until_ms == before.until_ms

    def test_doubles_whatever_moves_from_before_it_began_have_come_to(self) -> None:
        story = Story(**_HELD_BACK)
        for number in range(4):
            story.evict(number, f"pod-{number}")
        for number in range(3):
            owner = f"another-{number}"
            story.evict(30 + number, f"late-{number}", owner=owner, source_node="b")
            story.effects.arrived(owner, pod(f"new-{number}", owner, ready=True), "c", at(35))
        story.see("a", 9_000, 20)
        story.see("b", 6_000, 40)
        story.see("peer", 9_000, 40)
        assert len(story.tick(63)) == 4
        assert {each.verdict for each in story.tick(95)} == {"helped"}
        self.move(story, 1100, helps=False)
        assert "time 2 in a row" in str(self.held(story, 1161))

    @pytest.mark.parametrize("settings", [{"minHelpedPercent": 0}, {"enabled": False}])
    def test_never_begins_where_the_policy_says_so(self, settings: dict[str, Any]) -> None:
        story = Story(**_HELD_BACK | settings)
        for number in range(6):
            self.move(story, number * 100, helps=False)
        assert self.held(story, 560) is None

    def test_is_forgotten_with_the_pool(self) -> None:
        story = Story(**_HELD_BACK)
        story.evict(0, pool="was-there")
        story.see("a", 9_000, 1)
        story.verdict(60)
        assert "was-there" in story.effects.pools.rows
        story.effects.set_policy(policy())
        assert story.effects.pools.rows == {}
