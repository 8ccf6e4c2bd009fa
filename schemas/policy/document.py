"""The policy of a cluster, with all defaults.

Two policies are equal if they have the same effect. Comments and fields without an effect do not
count.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from schemas.policy.errors import Problem
from schemas.policy.parts import Conflict, PolicyPart, int_range, is_default, raise_conflicts
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
    """observe: evictions are decided and marked dry; enforce: they are executed."""
    compat: Compat = "loadstream"
    """koordinator: filter, score, estimation and rebalancing behave as Koordinator's, even where
    that is surprising."""
    plugins: PluginChoice = Field(default_factory=PluginChoice, validate_default=True)
    overutilization_risk: Annotated[OverutilizationRiskArgs, Field(exclude_if=is_default)] = Field(
        default_factory=OverutilizationRiskArgs
    )
    # After `plugins` and `overutilization_risk`, on which its thresholds depend.
    load_aware: LoadAwareSchedulingArgs = Field(
        default_factory=LoadAwareSchedulingArgs, validate_default=True
    )
    resource_limits: NodeResourceLimitsAwareArgs = Field(
        default_factory=NodeResourceLimitsAwareArgs
    )
    resources_fit: Annotated[NodeResourcesFitArgs, Field(exclude_if=is_default)] = Field(
        default_factory=NodeResourcesFitArgs
    )
    balanced_allocation: Annotated[
        NodeResourcesBalancedAllocationArgs, Field(exclude_if=is_default)
    ] = Field(default_factory=NodeResourcesBalancedAllocationArgs)
    risk_moves: Annotated[RiskMoveArgs, Field(exclude_if=is_default)] = Field(
        default_factory=RiskMoveArgs
    )
    collect: CollectPolicies = Field(default_factory=CollectPolicies)
    # After `compat`, on which its defaults and rules depend.
    rebalance: LowNodeLoadArgs = Field(default_factory=LowNodeLoadArgs, validate_default=True)
    migration: MigrationControllerArgs = Field(default_factory=MigrationControllerArgs)
    evictor: DefaultEvictorArgs = Field(default_factory=DefaultEvictorArgs)
    descheduling: DeschedulingLimits = Field(default_factory=DeschedulingLimits)
    maintenance: MaintenanceArgs = Field(default_factory=MaintenanceArgs)
    moves: MoveArgs = Field(default_factory=MoveArgs)
    moving_thresholds: MovingThresholds = Field(default_factory=MovingThresholds)

    other_schedulers: Literal["refuse", "evictDirectly"] = "refuse"
    """Pods of other schedulers in mode ReservationFirst, for which loadstream cannot reserve room.

    refuse: not evicted, as upstream. evictDirectly: evicted without a reservation.
    """
    when_overloaded: Annotated[Literal["leastBad", "wait"] | None, Field(validate_default=True)] = (
        None
    )
    """A pod that only the load filter keeps from every node.

    leastBad: it is placed on the best of these nodes. wait: it waits. None: as `compat` says.
    """
    reservation_seconds: Annotated[int, int_range(1, _DAY_S)] = 300
    """How long a reservation lasts if the pod's lifecycle does not confirm it."""
    max_pending_requests: Annotated[int, int_range(1, 10_000_000)] = 100_000
    """Requests that may wait for a node; further ones are refused."""
    initial_backoff_seconds: Annotated[int, int_range(1, _DAY_S)] = 1
    """Wait after the first failed attempt to place a pod; it doubles with each further one."""
    max_backoff_seconds: Annotated[int, int_range(1, _DAY_S)] = 60
    metric_future_seconds: Annotated[int, int_range(0, _DAY_S)] = 60
    """Maximum lead of a metric's update time over the clock."""

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
        cls, given: Literal["leastBad", "wait"] | None, info: ValidationInfo
    ) -> Literal["leastBad", "wait"]:
        return given or ("wait" if info.data.get("compat") == "koordinator" else "leastBad")

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
        first, longest = self.initial_backoff_seconds, self.max_backoff_seconds
        if longest < first:
            names = ("initialBackoffSeconds", "maxBackoffSeconds")
            given = "max_backoff_seconds" in self.model_fields_set
            message = f"{names[0]} is {first} and {names[1]} is {longest}; the maximum must not be smaller"
            yield Conflict((names[given],), message, names)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        pools = [pool.name for pool in self.rebalance.pools(self.compat)]
        raise_conflicts(type(self).__name__, self.maintenance.find_unknown_pools(pools), None)
        return self

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
    def remembers_moves(self) -> bool:
        """Whether past moves influence new ones; upstream has no such feature."""
        return self.moves.enabled and self.compat == "loadstream"

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
