"""The result of one eviction, as a verdict and a sentence, and what that says of its pool.

Hot spells end by themselves, so a source that has cooled proves nothing: a move has helped if its
source was hot in a smaller share of the rounds after it than nodes that were as hot when it was
planned and were left alone (`left_alone`). Where there is no such node, nothing is known.

A pool whose newest verdicts hold too few that helped emits nothing for a while, which doubles each
time a move after it does not help either, and ends for good with the first one after it that does
(docs/upstream.md P2, O1).
"""

from schemas.moves import FollowedEvictionRow, LoadReading, PoolVerdictsRow, Verdict
from schemas.policy.moves import MoveArgs
from streams.moves.deadlines import doubling_ms, seconds

#: Verdicts that say something about a pool's moves; the others are only counted.
_COUNTING = ("helped", "bounced", "source hot", "target hot", "not ready")


def judge(row: FollowedEvictionRow, now_ms: int) -> tuple[Verdict, str]:
    """The verdict on an eviction that was followed for long enough, or has bounced."""
    took_s = seconds(now_ms - row.evicted_at_ms)
    if row.dry_run:
        return "dry", f"not executed; without it, {_standing(row.source_node, row.source, took_s)}"
    replacement = "no replacement" if row.replacement is None else row.replacement.name
    if row.bounced == "came back":
        return "bounced", f"the replacement {replacement} came back to {row.source_node}"
    if row.bounced:
        return "bounced", f"the replacement {replacement} was evicted again from {row.target_node}"
    if row.source is None:
        return "unknown", _standing(row.source_node, None, took_s)
    compared = _compared(row)
    if _hotter(row):
        return "source hot", f"{_standing(row.source_node, row.source, took_s)}; {compared}"
    if row.target is not None and row.overloaded_at_ms is not None:
        after_s = seconds(row.overloaded_at_ms - row.evicted_at_ms)
        now = (
            f"; then {_percent(row.target)}" if not row.target.over else f": {_percent(row.target)}"
        )
        return "target hot", f"{row.target_node} rose above its threshold after {after_s} s{now}"
    if row.ready_at_ms is None:
        what = "no replacement came" if row.replacement is None else f"{replacement} was not ready"
        return "not ready", f"{what} within {took_s} s"
    counts = row.comparison
    if not counts.peer_rounds:
        return "unknown", f"{_standing(row.source_node, row.source, took_s)}; {compared}"
    if not counts.hot_rounds and not counts.peer_hot_rounds:
        return "no difference", f"{_standing(row.source_node, row.source, took_s)}; {compared}"
    ready_s = seconds(row.ready_at_ms - row.evicted_at_ms)
    target = "is not watched" if row.target is None else f"stayed at {_percent(row.target)}"
    return (
        "helped",
        f"{_standing(row.source_node, row.source, took_s)}; {compared}; {row.target_node} {target}; "
        f"the replacement was ready after {ready_s} s",
    )


def _hotter(row: FollowedEvictionRow) -> bool:
    """The source was hot, and in no smaller share of the rounds than nodes that were left alone.

    One that was hot in all rounds was so whatever they were.
    """
    counts = row.comparison
    if not counts.peer_rounds:
        return 0 < counts.hot_rounds == counts.rounds
    return 0 < counts.hot_rounds * counts.peer_rounds >= counts.peer_hot_rounds * counts.rounds


def _compared(row: FollowedEvictionRow) -> str:
    """The rounds in which the source was hot, beside those of the nodes it is compared with."""
    counts = row.comparison
    own = f"hot in {counts.hot_rounds} of {counts.rounds} rounds"
    if not counts.peer_rounds:
        if not row.peers:
            return f"{own}, and no other node was as hot"
        return f"{own}, and none of {len(row.peers)} nodes as hot could be compared with"
    hot, looks = counts.peer_hot_rounds, counts.peer_rounds
    return f"{own}, nodes as hot that were left alone in {hot} of {looks}"


def _standing(node: str, reading: LoadReading | None, took_s: int) -> str:
    if reading is None:
        return f"no round has looked at {node} within {took_s} s"
    verb = "is still hot with" if reading.over else "cooled to"
    return f"{node} {verb} {_percent(reading)}"


def _percent(reading: LoadReading) -> str:
    whole = max(reading.capacity, 1)
    used, limit = (amount * 1000 // whole for amount in (reading.used, reading.limit))
    return f"{reading.resource} {used / 10:.1f} % of at most {limit / 10:.1f} %"


def counted(
    row: PoolVerdictsRow, verdict: Verdict, evicted_at_ms: int, args: MoveArgs, now_ms: int
) -> PoolVerdictsRow:
    """The pool after one more verdict."""
    counts = {**row.counts, verdict: row.counts.get(verdict, 0) + 1}
    update: dict[str, object] = {"counts": {name: counts[name] for name in sorted(counts)}}
    # Moves from before it was held back say nothing about whether that was for long enough.
    if verdict not in _COUNTING or evicted_at_ms < row.until_ms:
        return row.model_copy(update=update)
    helped = verdict == "helped"
    if helped and row.backoffs:
        # It recovers, and begins with a clean slate.
        update |= {"recent": (True,), "backoffs": 0, "until_ms": 0, "held_for": ""}
        return row.model_copy(update=update)
    recent = (*row.recent, helped)[-args.verdicts :]
    update["recent"] = recent
    if not helped and len(recent) >= args.verdicts:
        share = sum(recent)
        if share * 100 < args.min_helped_percent * len(recent):
            times = row.backoffs + 1
            update |= {
                "backoffs": times,
                "until_ms": now_ms + _wait_ms(args, times),
                "held_for": f"{share} of the last {len(recent)} moves of the pool helped, at least "
                f"{args.min_helped_percent} % must",
            }
    return row.model_copy(update=update)


def shortened(row: PoolVerdictsRow, args: MoveArgs, now_ms: int) -> PoolVerdictsRow:
    """The pool, held back for no longer than a policy says from now on."""
    latest_ms = now_ms + _wait_ms(args, row.backoffs)
    if row.until_ms <= latest_ms:
        return row
    return row.model_copy(update={"until_ms": latest_ms})


def _wait_ms(args: MoveArgs, times: int) -> int:
    return doubling_ms(args.initial_backoff_seconds, args.max_backoff_seconds, times)


def held_back(row: PoolVerdictsRow, now_ms: int) -> str | None:
    """Why a pool emits nothing now, with numbers; None: it may."""
    if row.until_ms <= now_ms:
        return None
    left_s = seconds(row.until_ms - now_ms)
    return f"{row.held_for}; held back for {left_s} s more, time {row.backoffs} in a row"
