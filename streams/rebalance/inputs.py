"""What a round is given besides the policy, and what both ways of making one have in common."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from schemas.policy import LowNodeLoadArgs, Policy
from schemas.policy.selectors import LabelSelector
from streams.inventory.arrays import BoolArray
from streams.inventory.node import Held
from streams.rebalance.candidates import Rules
from streams.rebalance.columns import Columns
from streams.rebalance.looks import Looks
from streams.rebalance.outcome import Thresholds

#: The thresholds in force of a pool by its name and the policy's own.
InForce = Callable[[str, Thresholds], Thresholds]


def as_configured(pool: str, thresholds: Thresholds) -> Thresholds:
    """Thresholds that do not move."""
    return thresholds


@dataclass(frozen=True, slots=True)
class RoundInput:
    """State, time, and the rules to ask."""

    columns: Columns
    now_ms: int
    rules: Rules
    in_force: InForce = as_configured
    """What a pool's thresholds are now."""
    looks: Looks = field(default_factory=Looks)
    """How many pods may still be looked at."""
    reluctant_last: bool = False
    """Pods that prefer no eviction come after all others of their node (noEvictionPolicy.

    Preferred).
    """
    paused: bool = False
    """Nodes are only looked at, for thresholds that follow the recent past."""


class PodFilter:
    """Which pods a policy allows to be moved at all: namespaces and pod selectors."""

    def __init__(self, args: LowNodeLoadArgs) -> None:
        self._namespaces = args.evictable_namespaces
        self._selectors: tuple[LabelSelector, ...] = tuple(
            each.selector for each in args.pod_selectors if each.selector is not None
        )

        self.open = self._namespaces is None and not self._selectors
        """It allows every pod."""

    def __call__(self, held: Held) -> tuple[str, str] | None:
        """Gate and reason that keep a pod; None: it may be moved."""
        pod = held.pod
        if self._namespaces is not None and not self._namespaces.admits(pod.namespace):
            return "namespaces", f"namespace {pod.namespace} is not among the evictable ones"
        if self._selectors and not any(each.matches(pod.labels) for each in self._selectors):
            return "selectors", "no pod selector of the policy matches its labels"
        return None


def selectors_of(policy: Policy) -> list[LabelSelector | None]:
    """The node selectors of all pools, in their order."""
    return [pool.node_selector for pool in policy.rebalance.pools(policy.compat)]


def measured(
    columns: Columns, args: LowNodeLoadArgs, now_ms: int, resources: Collection[str] = ()
) -> BoolArray:
    """Nodes whose metric says something, also of these resources, and is young enough, shape
    (nodes,).
    """
    fresh: BoolArray = (columns.updated_ms >= 0) & (
        now_ms - columns.updated_ms < args.node_metric_expiration_seconds * 1_000
    )
    which = [columns.universe.index[name] for name in resources]
    return fresh & columns.known[which].all(axis=0)


def fresh_metric(resources: Collection[str]) -> str:
    """What a round needs of a node to judge it; the number of its pods is no figure of a metric."""
    named = [name for name in resources if name != "pods"]
    return f"a fresh metric with {' and '.join(named)}" if named else "a fresh metric"


def over_text(
    prefix: str,
    resources: Sequence[str],
    usage: Sequence[int],
    limits: Sequence[int],
    capacity: Sequence[int],
    percents: Sequence[float],
) -> str:
    """Which usage exceeds which threshold, as Koordinator words it (docs/upstream.md B5.1)."""
    return ", ".join(
        [
            f"{prefix} {name} usage({100 * used / total if total else 0:.2f}%)"
            f">threshold({percents[index]:.2f}%)"
            for index, (name, used, limit, total) in enumerate(
                zip(resources, usage, limits, capacity, strict=True)
            )
            if used > limit
        ]
    )


def reason_text(parts: str) -> str:
    """The reason of an eviction."""
    return f"node is overutilized, {parts}"


def named(resources: Sequence[str], amounts: Sequence[int]) -> dict[str, int]:
    """Amounts by resource."""
    return dict(zip(resources, amounts, strict=True))


def positions(flags: BoolArray) -> Iterator[int]:
    """Positions at which a flag is set."""
    yield from flags.nonzero()[0].tolist()
