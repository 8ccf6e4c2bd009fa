"""How many pods may be evicted in a time: evictQPS for all, objectLimiters per workload and
namespace.

Buckets are kept by what they limit, and only while they are not full. A token is taken when a
command is decided; a command that fails does not give it back, as upstream. Source:
docs/reference/upstream.md M7, M8.

Commands leave at ticks of the log's clock. So evictQPS allows at a tick what it would have allowed
since the tick before, of at most a second: 10 a second are 10 a second, whether ticks come every
second or ten times in one.

Buckets are exact: no float, and no drift however often they are looked at. A rate is a fraction of
tokens per millisecond. A bucket holds whole tokens and a part of the next one, as a number of units
of which `parts` make a token; what is beyond the burst is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from schemas.messages.migrations import EvictionLimiterRow
from schemas.messages.pods import Pod
from schemas.policy import Policy
from schemas.policy.durations import format_duration_ms
from streams.migration.gates.concurrency_limits import share_of
from streams.migration.gates.workloads import Replicas
from streams.rebalance.candidates import Gate
from streams.stage.tracked_rows import TrackedRows

#: Most units that a token may have: parts and products with a time stay within what a row can hold.
PARTS_MAX = 10**18


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a bucket fills, and how much it holds."""

    per_ms: Fraction
    """Tokens per millisecond, above 0."""
    burst: int
    """Most tokens, at least 1."""
    part: Fraction = Fraction(0)
    """Part of a further token that it holds at most, below 1."""

    @property
    def parts(self) -> int:
        """Units that a token has."""
        return self.per_ms.denominator


def rate_per_second(tokens: float, burst: int) -> Rate:
    """Tokens per second, read as the decimal number that was written."""
    per_ms = (Fraction(repr(tokens)) / 1000).limit_denominator(PARTS_MAX)
    return Rate(max(per_ms, Fraction(1, PARTS_MAX)), max(1, burst))


def rate_over(tokens: int, duration_ms: int, burst: int) -> Rate:
    """Tokens per duration."""
    return Rate(Fraction(tokens, duration_ms), max(1, burst))


@dataclass(frozen=True, slots=True)
class Bucket:
    """What is in a bucket at a time."""

    tokens: int
    part: int
    parts: int
    at_ms: int

    def filled(self, rate: Rate, now_ms: int) -> "Bucket":
        """The bucket later; under another rate than before, its part is rounded down."""
        units = self.part * rate.parts // self.parts
        units += max(0, now_ms - self.at_ms) * rate.per_ms.numerator
        tokens, part = self.tokens + units // rate.parts, units % rate.parts
        most = full(rate, now_ms)
        if (tokens, part) >= (most.tokens, most.part):
            return most
        return Bucket(tokens, part, rate.parts, now_ms)

    def taken(self) -> "Bucket":
        """The bucket without one of its tokens."""
        return Bucket(self.tokens - 1, self.part, self.parts, self.at_ms)

    def wait_ms(self, rate: Rate) -> int:
        """How long until it has a token: 0 if it has one."""
        if self.tokens:
            return 0
        return -(-(rate.parts - self.part) // rate.per_ms.numerator)


def full(rate: Rate, now_ms: int) -> Bucket:
    """A bucket that nothing was drawn from."""
    return Bucket(rate.burst, int(rate.part * rate.parts), rate.parts, now_ms)


#: What a bucket limits ("cluster", "workload", "namespace") and its name.
Key = tuple[str, str]
EVERYTHING: Key = ("cluster", "")
#: Longest time between two ticks of which evictQPS is made up for; after an outage not all commands
#: leave at once.
QPS_SPREAD_MS = 1_000


class Limiters(TrackedRows[Key, Bucket]):
    """The token buckets of a cluster that are not full."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        super().__init__("eviction_limiters")
        self.cluster = cluster
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Limit by another policy; what was taken stays taken."""
        self.args = policy.migration
        self._qps = rate_per_second(policy.migration.evict_qps, policy.migration.evict_burst)

    # --- questions ------------------------------------------------------------------------------

    def exhausted(
        self, pod: Pod, replicas: Replicas | None, now_ms: int, ahead: Mapping[str, int]
    ) -> Gate | None:
        """Why a pod's workload or namespace may have no eviction now; None: it may.

        `ahead` is how many evictions of the workload or namespace are to come before this one.
        """
        for key, rate, whose in self._of(pod, replicas):
            bucket, before = self._bucket(key, rate, now_ms), ahead.get(key[0], 0)
            if bucket.tokens > before:
                continue
            wait = format_duration_ms(bucket.wait_ms(rate))
            text = f"{whose} has used up its evictions (objectLimiters.{key[0]}"
            if bucket.tokens:
                text += f": {bucket.tokens} left, {before} migrations before this one)"
            else:
                text += f": {rate.burst} at once; the next one in {wait})"
            return Gate("ObjectLimiter", text)
        return None

    def passed(self, length_ms: int, now_ms: int) -> None:
        """So much time has passed since the last tick.

        What evictQPS allowed in it may leave at once; where the last tick left no token, its part of
        one counts too, since commands may have waited for the rest.
        """
        rate = rate_per_second(self.args.evict_qps, self.args.evict_burst)
        meanwhile = rate.per_ms * min(length_ms, QPS_SPREAD_MS)
        before = self._bucket(EVERYTHING, rate, now_ms - length_ms)
        if not before.tokens:
            meanwhile += Fraction(before.part, before.parts)
        if meanwhile > rate.burst:
            rate = Rate(rate.per_ms, int(meanwhile), meanwhile % 1)
        self._qps = rate

    def too_fast(self, now_ms: int) -> str | None:
        """Why evictQPS allows no command now; None: it allows one."""
        bucket = self._bucket(EVERYTHING, self._qps, now_ms)
        if bucket.tokens:
            return None
        wait = format_duration_ms(bucket.wait_ms(self._qps))
        return f"evictQPS {self.args.evict_qps:g} allows the next command in {wait}"

    def spend(self, pod: Pod, replicas: Replicas | None, now_ms: int) -> None:
        """A command is decided; the caller has asked whether it may be."""
        self._spend(EVERYTHING, self._qps, now_ms)
        for key, rate, _ in self._of(pod, replicas):
            self._spend(key, rate, now_ms)

    def _of(self, pod: Pod, replicas: Replicas | None) -> list[tuple[Key, Rate, str]]:
        found = []
        limiter = self.args.object_limiters.get("workload")
        if limiter is not None and limiter.duration_ms and replicas is not None:
            value = limiter.max_migrating
            value = self.args.max_migrating_per_workload if value is None else value
            rate = rate_over(
                share_of(value, replicas.count), limiter.duration_ms, max(1, limiter.burst)
            )
            found.append((("workload", replicas.owner), rate, str(replicas)))
        limiter = self.args.object_limiters.get("namespace")
        # Upstream reads a percentage as 0 here, and 0 is off.
        most = limiter.max_migrating if limiter is not None else None
        if limiter is not None and limiter.duration_ms and isinstance(most, int) and most:
            rate = rate_over(most, limiter.duration_ms, max(1, limiter.burst))
            found.append((("namespace", pod.namespace), rate, f"namespace {pod.namespace}"))
        return found

    # --- buckets --------------------------------------------------------------------------------

    def _bucket(self, key: Key, rate: Rate, now_ms: int) -> Bucket:
        bucket = self.rows.get(key)
        return full(rate, now_ms) if bucket is None else bucket.filled(rate, now_ms)

    def _spend(self, key: Key, rate: Rate, now_ms: int) -> None:
        self.set(key, self._bucket(key, rate, now_ms).taken())

    def tidy(self, now_ms: int) -> None:
        """Forget buckets that nothing was drawn from for so long that they are full again."""
        longest_ms = max(
            -(-(self._qps.burst + self._qps.part) // self._qps.per_ms),
            *(each.duration_ms * max(1, each.burst) for each in self.args.object_limiters.values()),
            0,
        )
        old = [key for key, each in self.rows.items() if now_ms - each.at_ms >= longest_ms]
        for key in old:
            self.drop(key)

    # --- rows -----------------------------------------------------------------------------------

    def row(self, key: Key) -> EvictionLimiterRow | None:
        """The row of a bucket; None: it is full."""
        bucket = self.rows.get(key)
        if bucket is None:
            return None
        return EvictionLimiterRow.model_validate(
            {
                "cluster": self.cluster,
                "scope": key[0],
                "name": key[1],
                "tokens": bucket.tokens,
                "part": bucket.part,
                "parts": bucket.parts,
                "filled_at_ms": bucket.at_ms,
            }
        )

    def take(self, row: EvictionLimiterRow) -> None:
        """Take over a row as it was written."""
        self.set((row.scope, row.name), Bucket(row.tokens, row.part, row.parts, row.filled_at_ms))
