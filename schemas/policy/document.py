"""A cluster's whole policy, with every default filled in.

This is what engines read. Two policies are equal if they have the same effect; what a text held
beside that (comments, fields that mean nothing here) is no part of it.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from schemas.policy.errors import Problem
from schemas.policy.parts import Conflict, PolicyPart, is_default, refuse, whole
from schemas.policy.sections.collect import CollectPolicies
from schemas.policy.sections.descheduling import DeschedulingLimits
from schemas.policy.sections.evictor import DefaultEvictorArgs
from schemas.policy.sections.load_aware import LoadAwareSchedulingArgs
from schemas.policy.sections.maintenance import MaintenanceArgs
from schemas.policy.sections.migration import MigrationControllerArgs
from schemas.policy.sections.moves import MoveArgs
from schemas.policy.sections.moving_thresholds import MovingThresholds, moving_conflicts
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
    """observe: evictions are decided and marked dry; enforce: they are commands."""
    compat: Compat = "loadstream"
    """koordinator: filter, score, estimation and rebalancing do what Koordinator does, also where
    that surprises."""
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
    """Pods that another scheduler places, where room is to be reserved first: left alone, as
    upstream does, or evicted without a reservation."""
    when_overloaded: Annotated[Literal["leastBad", "wait"] | None, Field(validate_default=True)] = (
        None
    )
    """What becomes of a pod that the load filter alone keeps from every node: it is placed on the
    best of them all the same, or waits; none: as `compat` says."""
    reservation_seconds: Annotated[int, whole(1, _DAY_S)] = 300
    """Life of a reservation that the pod's lifecycle has not confirmed."""
    max_pending_requests: Annotated[int, whole(1, 10_000_000)] = 100_000
    """Requests that may wait for a node; a further one is refused."""
    initial_backoff_seconds: Annotated[int, whole(1, _DAY_S)] = 1
    """Wait after the first failed attempt to place a pod; each further one doubles it."""
    max_backoff_seconds: Annotated[int, whole(1, _DAY_S)] = 60
    metric_future_seconds: Annotated[int, whole(0, _DAY_S)] = 60
    """How far ahead of the clock a metric's update time may be."""

    _warnings: tuple[Problem, ...] = PrivateAttr(default=())

    @field_validator("plugins")
    @classmethod
    def _resolve_plugins(cls, plugins: PluginChoice, info: ValidationInfo) -> PluginChoice:
        return plugins.resolved(info.data.get("compat", "loadstream"))

    @field_validator("load_aware")
    @classmethod
    def _resolve_load_aware(
        cls, args: LoadAwareSchedulingArgs, info: ValidationInfo
    ) -> LoadAwareSchedulingArgs:
        # Beside the score by risk a lower threshold than the share from which that calls a node hot
        # costs evictions (docs/explanation/closed-loop.md). Upstream's is for those who name upstream's plugin.
        plugins: PluginChoice | None = info.data.get("plugins")
        risk: OverutilizationRiskArgs | None = info.data.get("overutilization_risk")
        if plugins is None or risk is None or info.data.get("compat") != "loadstream":
            return args
        hot = next((each.percent for each in risk.resources if each.name == "cpu"), None)
        if hot is None or plugins.names_load_aware or not plugins.scores(OVERUTILIZATION_RISK):
            return args
        return args.refusing_from(hot)

    @field_validator("when_overloaded")
    @classmethod
    def _resolve_when_overloaded(
        cls, given: Literal["leastBad", "wait"] | None, info: ValidationInfo
    ) -> Literal["leastBad", "wait"]:
        return given or ("wait" if info.data.get("compat") == "koordinator" else "leastBad")

    @field_validator("rebalance")
    @classmethod
    def _resolve_rebalance(cls, args: LowNodeLoadArgs, info: ValidationInfo) -> LowNodeLoadArgs:
        # A wrong `compat` is reported as such; guessing it would report rules that may not apply.
        compat = info.data.get("compat")
        guessed = ("compat",) in (info.context or {}).get("taken_out", ())
        return args if compat is None or guessed else args.resolved(compat)

    def conflicts(self) -> Iterable[Conflict]:
        """The longest wait is not shorter than the first; what moves goes with what it takes the
        place of."""
        yield from moving_conflicts(
            self.moving_thresholds, self.load_aware, self.rebalance, self.compat
        )
        first, longest = self.initial_backoff_seconds, self.max_backoff_seconds
        if longest < first:
            names = ("initialBackoffSeconds", "maxBackoffSeconds")
            given = "max_backoff_seconds" in self.model_fields_set
            message = (
                f"{names[0]} is {first} and {names[1]} is {longest}; allowed is at most as much"
            )
            yield Conflict((names[given],), message, names)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Refuse windows of pools that the policy does not have."""
        pools = [pool.name for pool in self.rebalance.pools(self.compat)]
        refuse(type(self).__name__, self.maintenance.unknown(pools), None)
        return self

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Values that are probably not what the author wants, in the order of the text."""
        return self._warnings

    def annotate(self, warnings: Iterable[Problem]) -> Self:
        """Attach the warnings of the text, and return the same policy."""
        self._warnings = tuple(warnings)
        return self

    @property
    def dry_run(self) -> bool:
        """Whether evictions that rounds want are marked dry: by the mode, or by one of upstream's
        switches."""
        return self.dry_for("rebalance")

    def dry_for(self, trigger: Literal["rebalance", "request", "drain"]) -> bool:
        """Whether evictions are marked dry; LowNodeLoad's switch is one of its rounds alone."""
        return (
            self.mode == "observe"
            or self.descheduling.dry_run
            or self.migration.dry_run
            or (trigger == "rebalance" and self.rebalance.dry_run)
        )

    @property
    def remembers_moves(self) -> bool:
        """Whether past moves have a say in new ones; upstream has nothing of the kind."""
        return self.moves.enabled and self.compat == "loadstream"

    @property
    def judges_by_thresholds(self) -> bool:
        """Whether rounds find nodes hot by thresholds."""
        pools = self.rebalance.pools(self.compat)
        return self.plugins.balances(LOW_NODE_LOAD) and any(
            pool.high_thresholds or pool.prod_high_thresholds for pool in pools
        )

    def document(self) -> dict[str, Any]:
        """The effective policy as plain values, in the names and shapes that the reader takes."""
        return self.model_dump(mode="json", exclude_none=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed; they are not validated."""
        copied = super().model_copy(update=update, deep=deep)
        # The digest of the original would come along with its other attributes.
        copied.__dict__.pop("digest", None)
        return copied

    def __eq__(self, other: object) -> bool:
        return self.document() == other.document() if isinstance(other, Policy) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """16 hexadecimal digits that are the same for policies of the same effect."""
        canonical = orjson.dumps(self.document(), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(canonical).hexdigest()[:16]
