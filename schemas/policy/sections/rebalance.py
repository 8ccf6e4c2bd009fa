"""`rebalance`: arguments of the plugin LowNodeLoad, with Koordinator's or loadstream's rules.

The top-level fields define a pool, which gets all nodes that no named pool selects. A named pool
inherits threshold maps, weights and the anomaly condition that it does not set, but not the node
selector and `useDeviationThresholds`.

Upstream accepts settings that silently have another effect than their names say. `compat: koordinator`
accepts them, too; `compat: loadstream` refuses

- a threshold without its counterpart (upstream: switched off, or always exceeded);
- pools that can never get a node, or that share a name (upstream: pools overlap).
"""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from schemas.policy.durations import Duration, SignedDuration
from schemas.policy.errors import Path
from schemas.policy.parts import (
    NODE_POOLS_MAX,
    Conflict,
    Count,
    Int64,
    Items,
    PolicyPart,
    ResourceMap,
    get_alias,
    int_range,
    raise_conflicts,
)
from schemas.policy.selectors import LabelSelector, Namespaces

Compat = Literal["loadstream", "koordinator"]

#: Name of the pool of the top-level fields.
DEFAULT_POOL = "__default_node_pool__"

_ANOMALY_TIMEOUT_MS = 60_000
_ABNORMALITIES, _NORMALITIES = 5, 3
_MIN_SAMPLES = 3

Thresholds = ResourceMap[Annotated[float, Field(ge=0)]]
_Uint32 = Annotated[int, int_range(0, 2**32 - 1)]


class AnomalyCondition(PolicyPart):
    """Number of consecutive rounds after which a node becomes abnormal or normal."""

    timeout_ms: SignedDuration = Field(0, alias="timeout")
    """Duration of the abnormal state; 0 or less: one minute."""
    consecutive_abnormalities: _Uint32 = 0
    """Hot rounds in a row that make a node abnormal; 0: the default."""
    consecutive_normalities: _Uint32 = 0
    """Calm rounds in a row that make it normal again; 0: the default."""


class PodSelector(PolicyPart):
    """Selects pods that may be moved; an entry without `selector` is ignored."""

    name: Annotated[str, Field(max_length=253)] = ""
    """A name for people."""
    selector: LabelSelector | None = None
    """Labels of the pods; an entry without a selector is ignored."""


class PoolThresholds(PolicyPart):
    """Fields of the top level and of each pool; an absent map is inherited."""

    node_selector: LabelSelector | None = None
    """Nodes of the pool; none: all. Not inherited by pools."""
    use_deviation_thresholds: bool = False
    """Thresholds are distances from the pool's mean, in percentage points. Not inherited."""
    high_thresholds: Thresholds | None = None
    """Percent of allocatable; a node above any threshold is hot."""
    low_thresholds: Thresholds | None = None
    """Percent of allocatable; a node below all thresholds is a target."""
    prod_high_thresholds: Thresholds | None = None
    """High thresholds of the usage of pods of class prod."""
    prod_low_thresholds: Thresholds | None = None
    """Low thresholds of the usage of pods of class prod."""
    resource_weights: ResourceMap[Int64] | None = None
    """Weights that order nodes and pods."""
    anomaly_condition: AnomalyCondition | None = None
    """When a node above its thresholds counts as abnormal."""


class NodePool(PoolThresholds):
    """A pool of nodes with its own thresholds."""

    name: Annotated[str, Field(max_length=253)] = ""
    """Name of the pool; names must differ."""


THRESHOLD_MAPS = (
    "high_thresholds",
    "low_thresholds",
    "prod_high_thresholds",
    "prod_low_thresholds",
)
#: Maps that a pool inherits as a whole.
_INHERITED = (*THRESHOLD_MAPS, "resource_weights")
#: Fields that must not exceed another field.
UPPER_BOUNDS = {
    "low_thresholds": "high_thresholds",
    "prod_high_thresholds": "high_thresholds",
    "prod_low_thresholds": "prod_high_thresholds",
}
#: Pairs of high and low thresholds, which must have the same resources.
COUNTERPARTS = (
    ("high_thresholds", "low_thresholds"),
    ("prod_high_thresholds", "prod_low_thresholds"),
)


class LowNodeLoadArgs(PoolThresholds):
    """Arguments of load-aware rebalancing. `resolve` fills in the defaults and checks the rules."""

    paused: bool = False
    """No rounds happen. Requests of users are carried out."""
    dry_run: bool = False
    """Evictions of rounds are dry. Requests of users are carried out."""
    number_of_nodes: Count = 0
    """Nothing is evicted unless more nodes than this are targets."""
    node_metric_expiration_seconds: Annotated[int, int_range(1)] = 180
    """Nodes with older metrics are skipped."""
    evictable_namespaces: Namespaces | None = None
    """Namespaces whose pods may be moved; none: all."""
    pod_selectors: Items[PodSelector] = ()
    """Pods that may be moved: one selector must match; none: all."""
    min_samples: Annotated[int, int_range(0, 1_000)] | None = None
    """Nodes whose means have fewer samples are skipped; 0 with `compat: koordinator`. A metric
    without a number of samples, such as Koordinator's, is judged."""
    node_fit: bool = True
    """Only pods that fit a target are moved."""
    detector_cache_timeout_ms: Duration = Field(300_000, alias="detectorCacheTimeout")
    """Time after which the counters of a node that no round judges are forgotten; at least two
    intervals."""
    node_pools: Annotated[Items[NodePool], Field(max_length=NODE_POOLS_MAX)] = ()
    """Pools of nodes. A pool inherits the threshold maps, weights and anomaly condition that it
    lacks."""

    def resolve(self, compat: Compat) -> "LowNodeLoadArgs":
        """Return the arguments with upstream's defaults filled in at the top level.

        Raises pydantic's `ValidationError` for fields that conflict.
        """
        args = self.model_copy(
            update={
                "anomaly_condition": _default_anomaly(self.anomaly_condition, compat),
                "resource_weights": self._default_weights(),
                "min_samples": self._default_min_samples(compat),
            }
        )
        raise_conflicts(type(self).__name__, _conflicts(args, compat), None)
        return args

    def _default_min_samples(self, compat: Compat) -> int:
        if self.min_samples is not None:
            return self.min_samples
        return 0 if compat == "koordinator" else _MIN_SAMPLES

    def _default_weights(self) -> dict[str, int]:
        weights = dict(self.resource_weights or {})
        for resource in (
            "cpu",
            "memory",
            *(self.low_thresholds or {}),
            *(self.high_thresholds or {}),
        ):
            if weights.get(resource, 0) <= 0:
                weights[resource] = 1
        return weights

    def list_written(self) -> Iterator[tuple[Path, PoolThresholds]]:
        """Yield the thresholds of the top level and of each pool as written, with their paths."""
        yield ("rebalance",), self
        for index, pool in enumerate(self.node_pools):
            yield ("rebalance", "nodePools", index), pool

    def pools(self, compat: Compat) -> tuple[NodePool, ...]:
        """Return all pools, with inherited fields, in the order in which nodes are assigned to them.

        Only for resolved arguments. Upstream puts the pool of the top level first, because it considers
        every node for it. loadstream assigns a node to the first pool that selects it, so this pool is last.
        """
        default = NodePool.model_construct(
            name=DEFAULT_POOL,
            **{name: getattr(self, name) for name in PoolThresholds.model_fields},
        )
        named_pools = tuple(self.fill_inherited(pool) for pool in self.node_pools)
        return (default, *named_pools) if compat == "koordinator" else (*named_pools, default)

    def fill_inherited(self, pool: NodePool) -> NodePool:
        update: dict[str, object] = {
            name: getattr(self, name) for name in _INHERITED if getattr(pool, name) is None
        }
        top, condition = self.anomaly_condition, pool.anomaly_condition
        if condition is None:
            update["anomaly_condition"] = top
        elif top is not None:
            timeout_ms = condition.timeout_ms
            update["anomaly_condition"] = AnomalyCondition.model_construct(
                timeout_ms=timeout_ms if timeout_ms > 0 else _ANOMALY_TIMEOUT_MS,
                consecutive_abnormalities=condition.consecutive_abnormalities
                or top.consecutive_abnormalities,
                consecutive_normalities=condition.consecutive_normalities
                or top.consecutive_normalities,
            )
        return pool.model_copy(update=update)


def _default_anomaly(condition: AnomalyCondition | None, compat: Compat) -> AnomalyCondition:
    abnormalities, normalities = _ABNORMALITIES, _NORMALITIES
    timeout_ms = _ANOMALY_TIMEOUT_MS
    if condition is not None:
        abnormalities = condition.consecutive_abnormalities or _ABNORMALITIES
        # Upstream fills in at most one of the two counts, and then refuses the other count, which is 0.
        fills_normalities = compat == "loadstream" or condition.consecutive_abnormalities > 0
        default = _NORMALITIES if fills_normalities else 0
        normalities = condition.consecutive_normalities or default
        timeout_ms = condition.timeout_ms if condition.timeout_ms > 0 else _ANOMALY_TIMEOUT_MS
    return AnomalyCondition.model_construct(
        timeout_ms=timeout_ms,
        consecutive_abnormalities=abnormalities,
        consecutive_normalities=normalities,
    )


def _conflicts(args: LowNodeLoadArgs, compat: Compat) -> Iterator[Conflict]:
    """Yield all conflicts between fields of resolved arguments."""
    condition = args.anomaly_condition
    if condition is not None and condition.consecutive_normalities == 0:
        yield Conflict(
            ("anomalyCondition", "consecutiveNormalities"),
            "found 0; allowed is at least 1, because it gets no default where "
            "consecutiveAbnormalities is not given",
            ("anomalyCondition",),
        )
    yield from _pool_conflicts(args, args, (), compat)
    for index, pool in enumerate(args.node_pools):
        effective = args.fill_inherited(pool)
        yield from _pool_conflicts(effective, pool, ("nodePools", index), compat)
    if compat == "loadstream":
        yield from _name_conflicts(args.node_pools)
        yield from _find_unreachable_pools(args.node_pools)


def _pool_conflicts(
    pool: PoolThresholds, written: PoolThresholds, at: Path, compat: Compat
) -> Iterator[Conflict]:
    """Yield conflicts between the maps of one pool.

    If both maps are inherited, the top level reports the conflict.
    """
    holder = ("nodePools",) if at else ()
    alias = partial(get_alias, PoolThresholds)
    # Deviation thresholds are distances below and above a mean, which have no order.
    is_by_deviation = compat == "loadstream" and pool.use_deviation_thresholds
    for field, bound in UPPER_BOUNDS.items():
        if (
            is_by_deviation
            and field.endswith("low_thresholds")
            and bound.endswith("high_thresholds")
        ):
            continue
        if getattr(written, field) is None and getattr(written, bound) is None:
            continue
        limits: dict[str, float] = getattr(pool, bound) or {}
        for resource, percent in (getattr(pool, field) or {}).items():
            if percent > limits.get(resource, percent):
                source = field if getattr(written, field) is not None else bound
                yield Conflict(
                    (*at, alias(source), resource),
                    f"{alias(field)} is {percent:g} and {alias(bound)} is "
                    f"{limits[resource]:g}; the former must not exceed the latter",
                    (alias(field), alias(bound), *holder),
                )
    if compat == "koordinator":
        return
    for field, counterpart in (*COUNTERPARTS, *(pair[::-1] for pair in COUNTERPARTS)):
        if getattr(written, field) is None and getattr(written, counterpart) is None:
            continue
        counterparts = getattr(pool, counterpart) or {}
        for resource in getattr(pool, field) or {}:
            if resource not in counterparts:
                source = field if getattr(written, field) is not None else counterpart
                yield Conflict(
                    (*at, alias(source), *([resource] if source == field else [])),
                    f"{alias(field)} has {resource!r}, but {alias(counterpart)} does not; "
                    "give both or neither",
                    (alias(field), alias(counterpart), *holder),
                )


def _name_conflicts(pools: tuple[NodePool, ...]) -> Iterator[Conflict]:
    """Yield pools without a unique name: counters are kept per name."""
    first: dict[str, int] = {DEFAULT_POOL: -1}
    for index, pool in enumerate(pools):
        at = ("nodePools", index, "name")
        if not pool.name:
            yield Conflict(at, "required, but not given or empty", ("nodePools",))
        elif pool.name in first:
            other = first[pool.name]
            holder = f"nodePools[{other}]" if other >= 0 else "the pool of the top-level fields"
            message = f"found {pool.name!r}, which is the name of {holder}; names must differ"
            yield Conflict(at, message, ("nodePools",))
        first.setdefault(pool.name, index)


def _find_unreachable_pools(pools: tuple[NodePool, ...]) -> Iterator[Conflict]:
    """Yield the first pool that leaves no nodes to the pools after it."""
    for index, pool in enumerate(pools[:-1]):
        if pool.node_selector is None or pool.node_selector == LabelSelector():
            message = "not given, so the pool gets every node and the pools after it get none"
            yield Conflict(("nodePools", index, "nodeSelector"), message, ("nodePools",))
            return
