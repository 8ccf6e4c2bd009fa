"""How many pods may be evicted per time: evictQPS for all, objectLimiters per workload and namespace.

Token buckets are stored only while they are not full. A command takes a token. As upstream, a failed command
does not return its token. Source: docs/reference/upstream.md M7, M8.

Commands are sent at clock ticks. A tick may send the commands that evictQPS allows in the time since the last
tick, but at most those of one second. So the rate does not depend on the interval between ticks.

Buckets use exact fractions, because floats would drift. A rate is a fraction of tokens per millisecond.
A bucket holds whole tokens, and a part of the next token in units of 1 / `parts`.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from schemas.messages.migrations import EvictionLimiterRow
from schemas.messages.pods import Pod
from schemas.policy.durations import format_duration_ms
from schemas.policy.sections.migration import MigrationControllerArgs
from streams.inventory.inventory import Inventory
from streams.migration.limits.concurrency_limits import resolve_limit
from streams.migration.limits.workloads import Replicas
from streams.migration.registry import MigrationGroup, Registry, count_others
from streams.rebalance.candidates import Gate
from streams.stage.tracked_rows import TrackedRows

#: Most units per token, so that products of units and times fit into the integers of a row.
PARTS_MAX = 10**18


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a bucket fills, and how much it holds."""

    per_ms: Fraction
    """Tokens per millisecond, above 0."""
    burst: int
    """Most tokens, at least 1."""
    part: Fraction = Fraction(0)
    """Largest part of a further token that the bucket holds, below 1."""

    @property
    def parts(self) -> int:
        """Units per token."""
        return self.per_ms.denominator


def convert_per_second(tokens: float, burst: int) -> Rate:
    """Convert tokens per second to a rate; the float is read as the shortest decimal number."""
    per_ms = (Fraction(repr(tokens)) / 1000).limit_denominator(PARTS_MAX)
    return Rate(max(per_ms, Fraction(1, PARTS_MAX)), max(1, burst))


def build_rate(tokens: int, duration_ms: int, burst: int) -> Rate:
    return Rate(Fraction(tokens, duration_ms), max(1, burst))


@dataclass(frozen=True, slots=True)
class Bucket:
    """Content of a bucket at a time."""

    tokens: int
    part: int
    parts: int
    at_ms: int

    def fill(self, rate: Rate, now_ms: int) -> "Bucket":
        """Return the bucket at a later time. If the rate has changed, the part is rounded down."""
        units = self.part * rate.parts // self.parts
        units += max(0, now_ms - self.at_ms) * rate.per_ms.numerator
        tokens, part = self.tokens + units // rate.parts, units % rate.parts
        full = build_full_bucket(rate, now_ms)
        if (tokens, part) >= (full.tokens, full.part):
            return full
        return Bucket(tokens, part, rate.parts, now_ms)

    def take_token(self) -> "Bucket":
        return Bucket(self.tokens - 1, self.part, self.parts, self.at_ms)

    def compute_wait_ms(self, rate: Rate) -> int:
        """Return the time until the bucket has a token; 0 if it has a token."""
        if self.tokens:
            return 0
        return -(-(rate.parts - self.part) // rate.per_ms.numerator)


def build_full_bucket(rate: Rate, now_ms: int) -> Bucket:
    return Bucket(rate.burst, int(rate.part * rate.parts), rate.parts, now_ms)


#: Scope of a bucket ("cluster", or a key of objectLimiters) and name within the scope.
BucketKey = tuple[str, str]
CLUSTER_KEY: BucketKey = ("cluster", "")
#: A tick may send the commands of at most this time, so that few commands are sent after an outage.
QPS_SPREAD_MS = 1_000


class _Limit(NamedTuple):
    """A limit of objectLimiters that applies to a pod."""

    key: BucketKey
    rate: Rate
    subject: str
    """Workload or namespace, such as "namespace default"."""
    migrations: MigrationGroup
    """Migrations that take tokens of the same bucket."""


class Limiters(TrackedRows[BucketKey, Bucket]):
    """The token buckets of a cluster; full buckets have no row."""

    def __init__(self, cluster: str, inventory: Inventory, registry: Registry) -> None:
        super().__init__("eviction_limiters")
        self.cluster, self.inventory, self.registry = cluster, inventory, registry
        self._qps = convert_per_second(self.args.evict_qps, self.args.evict_burst)

    @property
    def args(self) -> MigrationControllerArgs:
        return self.inventory.policy.migration

    # --- checks ---------------------------------------------------------------------------------

    def check(
        self, pod: Pod, replicas: Replicas | None, now_ms: int, *, include_waiting: bool
    ) -> Gate | None:
        """Return the gate of the first limit without a token for the pod; None if there is none.

        With `include_waiting`, migrations without a command take tokens before the pod.
        """
        for key, rate, subject, migrations in self._list_limits(pod, replicas):
            waiting = count_others(migrations.without_command, pod.uid) if include_waiting else 0
            bucket = self._get_bucket(key, rate, now_ms)
            if bucket.tokens > waiting:
                continue
            wait = format_duration_ms(bucket.compute_wait_ms(rate))
            text = f"{subject} has reached objectLimiters.{key[0]}"
            if bucket.tokens:
                text += f": {bucket.tokens} left, {waiting} migrations come first"
            else:
                text += f": {rate.burst} at once; the next eviction is possible in {wait}"
            return Gate("ObjectLimiter", text)
        return None

    def advance(self, passed_ms: int, now_ms: int) -> None:
        """Set the burst of evictQPS to the tokens of the time since the last tick.

        If the last tick left only a part of a token, that part is added: commands may have waited for it.
        """
        rate = convert_per_second(self.args.evict_qps, self.args.evict_burst)
        allowed = rate.per_ms * min(passed_ms, QPS_SPREAD_MS)
        bucket = self._get_bucket(CLUSTER_KEY, rate, now_ms - passed_ms)
        if not bucket.tokens:
            allowed += Fraction(bucket.part, bucket.parts)
        if allowed > rate.burst:
            rate = Rate(rate.per_ms, int(allowed), allowed % 1)
        self._qps = rate

    def explain_rate(self, now_ms: int) -> str | None:
        """Return why evictQPS allows no command now; None if it does."""
        bucket = self._get_bucket(CLUSTER_KEY, self._qps, now_ms)
        if bucket.tokens:
            return None
        wait = format_duration_ms(bucket.compute_wait_ms(self._qps))
        return f"evictQPS {self.args.evict_qps:g} allows the next command in {wait}"

    def spend(self, pod: Pod, replicas: Replicas | None, now_ms: int) -> None:
        """Take the tokens of a command. The caller has checked that the buckets have tokens."""
        self._spend(CLUSTER_KEY, self._qps, now_ms)
        for limit in self._list_limits(pod, replicas):
            self._spend(limit.key, limit.rate, now_ms)

    def _list_limits(self, pod: Pod, replicas: Replicas | None) -> list[_Limit]:
        limits = []
        limiter = self.args.object_limiters.get("workload")
        if limiter is not None and limiter.duration_ms and replicas is not None:
            value = limiter.max_migrating
            value = self.args.max_migrating_per_workload if value is None else value
            rate = build_rate(
                resolve_limit(value, replicas.count), limiter.duration_ms, max(1, limiter.burst)
            )
            migrations = self.registry.get_owner_group(replicas.owner)
            limits.append(_Limit(("workload", replicas.owner), rate, str(replicas), migrations))
        limiter = self.args.object_limiters.get("namespace")
        # Upstream reads a percentage as 0 here, and 0 is off.
        value = limiter.max_migrating if limiter is not None else None
        if limiter is not None and limiter.duration_ms and isinstance(value, int) and value:
            rate = build_rate(value, limiter.duration_ms, max(1, limiter.burst))
            migrations = self.registry.get_namespace_group(pod.namespace)
            subject = f"namespace {pod.namespace}"
            limits.append(_Limit(("namespace", pod.namespace), rate, subject, migrations))
        return limits

    # --- buckets --------------------------------------------------------------------------------

    def _get_bucket(self, key: BucketKey, rate: Rate, now_ms: int) -> Bucket:
        bucket = self.rows.get(key)
        return build_full_bucket(rate, now_ms) if bucket is None else bucket.fill(rate, now_ms)

    def _spend(self, key: BucketKey, rate: Rate, now_ms: int) -> None:
        self.set(key, self._get_bucket(key, rate, now_ms).take_token())

    def drop_full(self, now_ms: int) -> None:
        """Drop buckets that are certainly full again."""
        longest_ms = max(
            -(-(self._qps.burst + self._qps.part) // self._qps.per_ms),
            *(args.duration_ms * max(1, args.burst) for args in self.args.object_limiters.values()),
            0,
        )
        old = [key for key, bucket in self.rows.items() if now_ms - bucket.at_ms >= longest_ms]
        for key in old:
            self.drop(key)

    # --- rows -----------------------------------------------------------------------------------

    def build_row(self, key: BucketKey) -> EvictionLimiterRow | None:
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

    def restore_row(self, row: EvictionLimiterRow) -> None:
        self.set((row.scope, row.name), Bucket(row.tokens, row.part, row.parts, row.filled_at_ms))
