"""The policy of a cluster, with all defaults.

Two policies are equal if they have the same effect. Comments and fields without an effect do not
count.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from schemas.policy.errors import Problem
from schemas.policy.parts import Conflict, PolicyPart, find_wrong_order, int_range, is_default
from schemas.policy.sections.collect import CollectPolicies
from schemas.policy.sections.descheduling import DeschedulingLimits
from schemas.policy.sections.evictor import DefaultEvictorArgs
from schemas.policy.sections.load_aware import LoadAwareSchedulingArgs
from schemas.policy.sections.maintenance import MaintenanceArgs
from schemas.policy.sections.migration import MigrationControllerArgs
from schemas.policy.sections.moves import MoveArgs
from schemas.policy.sections.moving_thresholds import MovingThresholds, find_moving_conflicts
from schemas.policy.sections.overutilization_risk import OverutilizationRiskArgs
from schemas.policy.sections.plugins import LOW_NODE_LOAD, OVERUTILIZATION_RISK, PluginChoice
from schemas.policy.sections.rebalance import Compat, LowNodeLoadArgs
from schemas.policy.sections.resource_limits import NodeResourceLimitsAwareArgs
from schemas.policy.sections.resources_fit import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from schemas.policy.sections.risk_moves import RiskMoveArgs

_DAY_S = 86_400


class Policy(PolicyPart):
    """Everything that a cluster's decisions depend on besides its state."""

    mode: Literal["observe", "enforce"] = "observe"
    """`observe`: evictions are decided and marked dry. `enforce`: they are carried out."""
    compat: Compat = "loadstream"
    """`koordinator`: filter, score, estimate and rebalance exactly as Koordinator does, also where
    the result is surprising."""
    plugins: PluginChoice = Field(default_factory=PluginChoice, validate_default=True)
    """Enabled plugins, in the order in which they run. A list that is not given keeps its default;
    with `compat: koordinator` the default score is LoadAwareScheduling and the default balance
    plugin is LowNodeLoad. The known plugins are:"""
    overutilization_risk: Annotated[OverutilizationRiskArgs, Field(exclude_if=is_default)] = Field(
        default_factory=OverutilizationRiskArgs
    )
    """The cost of a node, for the score and the moves of OverutilizationRisk. It uses no estimates.
    An unknown node, or a node whose metric lacks a resource, ranks after all measured nodes."""
    # After `plugins` and `overutilization_risk`, on which its thresholds depend.
    load_aware: LoadAwareSchedulingArgs = Field(
        default_factory=LoadAwareSchedulingArgs, validate_default=True
    )
    """Arguments of the filter and score LoadAwareScheduling (Koordinator's
    LoadAwareSchedulingArgs)."""
    resource_limits: NodeResourceLimitsAwareArgs = Field(
        default_factory=NodeResourceLimitsAwareArgs
    )
    """Arguments of the score NodeResourceLimitsAware, which is off by default. The score of a node is
    the share of the node that the limits of its pods leave free."""
    resources_fit: Annotated[NodeResourcesFitArgs, Field(exclude_if=is_default)] = Field(
        default_factory=NodeResourcesFitArgs
    )
    """Arguments of kube-scheduler's score NodeResourcesFit, which is off by default. Results equal
    kube-scheduler's."""
    balanced_allocation: Annotated[
        NodeResourcesBalancedAllocationArgs, Field(exclude_if=is_default)
    ] = Field(default_factory=NodeResourcesBalancedAllocationArgs)
    """Arguments of kube-scheduler's score NodeResourcesBalancedAllocation, which is off by default.
    Results equal kube-scheduler's."""
    risk_moves: Annotated[RiskMoveArgs, Field(exclude_if=is_default)] = Field(
        default_factory=RiskMoveArgs
    )
    """Arguments of the moves by OverutilizationRisk. `plugins: {balance: [LowNodeLoad]}` turns them
    off. They also follow `paused`, `dryRun`, `nodeMetricExpirationSeconds`, `evictableNamespaces`
    and `podSelectors` of `rebalance`, but no thresholds."""
    collect: CollectPolicies = Field(default_factory=CollectPolicies)
    """How usage samples become node metrics. A change applies from the next sample of each node.
    Names come from Koordinator's colocation configuration."""
    # After `compat`, on which its defaults and rules depend.
    rebalance: LowNodeLoadArgs = Field(default_factory=LowNodeLoadArgs, validate_default=True)
    """Arguments of the moves by thresholds (Koordinator's LowNodeLoadArgs). The fields at the top
    level form the pool of all nodes that no other pool selects. A node belongs to the first pool
    that selects it. Every high threshold needs a low threshold, and the reverse."""
    migration: MigrationControllerArgs = Field(default_factory=MigrationControllerArgs)
    """How a pod moves, which pods may move, and how many at once (Koordinator's
    MigrationControllerArgs). `migration` and `evictor` apply together. A bare pod, a pod with local
    storage or a system-critical pod may be evicted if one of the two sections permits it. All other
    protections of both sections apply."""
    evictor: DefaultEvictorArgs = Field(default_factory=DefaultEvictorArgs)
    """Which pods may be evicted (the descheduler's DefaultEvictorArgs). A pod is not evicted while
    the cluster has not sent the namespace or priority class that a rule needs."""
    descheduling: DeschedulingLimits = Field(default_factory=DeschedulingLimits)
    """Interval and limits of rounds, for all balance plugins."""
    maintenance: MaintenanceArgs = Field(default_factory=MaintenanceArgs)
    """When pods may be evicted. A pod may be evicted while windows of the policy and of its
    namespace are open. A list without windows is always open."""
    moves: MoveArgs = Field(default_factory=MoveArgs)
    """Protection against pods that move in circles. Times are log times. A freeze doubles from its
    initial to its maximum length."""
    moving_thresholds: MovingThresholds = Field(default_factory=MovingThresholds)
    """Thresholds that follow the time of the week. The first open window replaces the configured
    threshold of the same resource. A node's annotation overrides both. `hotspots` is refused with
    `compat: koordinator`. Decisions and rounds name the thresholds that applied."""

    other_schedulers: Literal["refuse", "evictDirectly"] = "refuse"
    """Pods that loadstream did not place and whose scheduler is not in `migration.schedulerNames`.
    `refuse`: not moved with `ReservationFirst`. `evictDirectly`: evicted without a reservation."""
    when_overloaded: Annotated[Literal["leastBad", "wait"] | None, Field(validate_default=True)] = (
        None
    )
    """What happens to a pod that load alone keeps from every node. `leastBad`: it is placed on the best
    of these nodes. `wait`: it waits; this is the default with `compat: koordinator`."""
    reservation_seconds: Annotated[int, int_range(1, _DAY_S)] = 300
    """How long room is reserved for a placed pod while no record shows the pod as bound."""
    max_pending_requests: Annotated[int, int_range(1, 10_000_000)] = 100_000
    """Requests that may wait for a node; further requests are refused."""
    initial_backoff_seconds: Annotated[int, int_range(1, _DAY_S)] = 1
    """Wait after the first failed attempt to place or evict a pod; it doubles with each further
    failure."""
    max_backoff_seconds: Annotated[int, int_range(1, _DAY_S)] = 60
    """Longest wait between two attempts."""
    metric_future_seconds: Annotated[int, int_range(0, _DAY_S)] = 60
    """How far a metric's time may be ahead of the clock."""

    _warnings: tuple[Problem, ...] = PrivateAttr(default=())

    @field_validator("plugins")
    @classmethod
    def _resolve_plugins(cls, plugins: PluginChoice, info: ValidationInfo) -> PluginChoice:
        return plugins.resolve(info.data.get("compat", "loadstream"))

    @field_validator("load_aware")
    @classmethod
    def _resolve_load_aware(
        cls, args: LoadAwareSchedulingArgs, info: ValidationInfo
    ) -> LoadAwareSchedulingArgs:
        # With the score by risk, a threshold below the hot share of that score causes evictions
        # (docs/explanation/closed-loop.md). Upstream's default applies if the policy names upstream's plugin.
        plugins: PluginChoice | None = info.data.get("plugins")
        risk: OverutilizationRiskArgs | None = info.data.get("overutilization_risk")
        if plugins is None or risk is None or info.data.get("compat") != "loadstream":
            return args
        hot = next(
            (resource.percent for resource in risk.resources if resource.name == "cpu"), None
        )
        if hot is None or plugins.names_load_aware or not plugins.scores(OVERUTILIZATION_RISK):
            return args
        return args.with_cpu_threshold(hot)

    @field_validator("when_overloaded")
    @classmethod
    def _resolve_when_overloaded(
        cls, value: Literal["leastBad", "wait"] | None, info: ValidationInfo
    ) -> Literal["leastBad", "wait"]:
        return value or ("wait" if info.data.get("compat") == "koordinator" else "leastBad")

    @field_validator("rebalance")
    @classmethod
    def _resolve_rebalance(cls, args: LowNodeLoadArgs, info: ValidationInfo) -> LowNodeLoadArgs:
        # If `compat` is wrong, only that is reported: rules of a guessed value might not apply.
        compat = info.data.get("compat")
        is_guessed = ("compat",) in (info.context or {}).get("removed", ())
        return args if compat is None or is_guessed else args.resolve(compat)

    def conflicts(self) -> Iterable[Conflict]:
        yield from find_moving_conflicts(
            self.moving_thresholds, self.load_aware, self.rebalance, self.compat
        )
        yield from find_wrong_order(self, "initial_backoff_seconds", "max_backoff_seconds")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Values that the author probably did not intend, in the order of the text."""
        return self._warnings

    def annotate(self, warnings: Iterable[Problem]) -> Self:
        """Attach warnings and return the same policy."""
        self._warnings = tuple(warnings)
        return self

    @property
    def dry_run(self) -> bool:
        """Whether evictions of rounds are marked dry, by `mode` or by one of upstream's switches."""
        return self.is_dry_for("rebalance")

    def is_dry_for(self, trigger: Literal["rebalance", "request", "drain"]) -> bool:
        """Tell whether evictions are marked dry.

        LowNodeLoad's switch concerns only its own rounds.
        """
        return (
            self.mode == "observe"
            or self.descheduling.dry_run
            or self.migration.dry_run
            or (trigger == "rebalance" and self.rebalance.dry_run)
        )

    @property
    def follows_koordinator(self) -> bool:
        return self.compat == "koordinator"

    @property
    def remembers_moves(self) -> bool:
        """Whether past moves influence new ones; upstream has no such feature."""
        return self.moves.enabled and not self.follows_koordinator

    @property
    def judges_by_thresholds(self) -> bool:
        pools = self.rebalance.pools(self.compat)
        return self.plugins.balances(LOW_NODE_LOAD) and any(
            pool.high_thresholds or pool.prod_high_thresholds for pool in pools
        )

    def document(self) -> dict[str, Any]:
        """Return the effective policy as plain values that the reader accepts."""
        return self.model_dump(mode="json", exclude_none=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed, without validation."""
        copied = super().model_copy(update=update, deep=deep)
        # The copy would keep the cached digest of the original.
        copied.__dict__.pop("digest", None)
        return copied

    def __eq__(self, other: object) -> bool:
        return self.document() == other.document() if isinstance(other, Policy) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits, equal for policies with the same effect."""
        canonical = orjson.dumps(self.document(), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(canonical).hexdigest()[:16]
