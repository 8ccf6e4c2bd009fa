"""`loadAware`: arguments of the plugin LoadAwareScheduling, as Koordinator reads them.

The reader fills the maps: an empty threshold map becomes the default, scaling factors are completed,
and weights are added unless only the dominant resource counts. Values that upstream does not check are
not checked here: thresholds of prod pods may be any number. `checkBoth` is an addition of loadstream.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from schemas.base.message import ResourceName
from schemas.policy.durations import Duration
from schemas.policy.parts import (
    Conflict,
    Int64,
    Items,
    Percent,
    PolicyPart,
    PositivePercent,
    ResourceMap,
    int_range,
    is_false,
)

#: Statistics of a window for thresholds and scores; empty: none.
AggregationType = Literal["avg", "p50", "p90", "p95", "p99", ""]

_WEIGHTS = {"cpu": 1, "memory": 1}
_USAGE_THRESHOLDS = {"cpu": 65, "memory": 95}
_SCALING_FACTORS = {"cpu": 85, "memory": 70}


class AggregatedArgs(PolicyPart):
    """Use a statistic of a window instead of the average usage."""

    usage_thresholds: ResourceMap[Percent] = Field(default_factory=dict)
    """Thresholds of the filter for this statistic, in percent; they replace `usageThresholds` if a
    type is given too."""
    usage_aggregation_type: AggregationType = ""
    """Statistic that the filter uses."""
    usage_aggregated_duration_ms: Duration = Field(0, alias="usageAggregatedDuration")
    """Window of that statistic; 0: the longest recorded window that has the statistic."""
    score_aggregation_type: AggregationType = ""
    """Statistic that the score uses."""
    score_aggregated_duration_ms: Duration = Field(0, alias="scoreAggregatedDuration")
    """Window of that statistic; 0: the longest recorded window that has the statistic."""

    @property
    def filters(self) -> bool:
        """Whether these thresholds replace `usageThresholds`: thresholds and a type are given."""
        return bool(self.usage_thresholds and self.usage_aggregation_type)


class LoadAwareSchedulingArgs(PolicyPart):
    """Arguments of the load-aware filter and score, with all defaults."""

    filter_expired_node_metrics: bool = True
    """True: a node with an expired metric is refused. False: the expired figures are used."""
    node_metric_expiration_seconds: Annotated[int, int_range(1)] = 180
    """Age at which a metric is expired."""
    enable_schedule_when_node_metrics_expired: bool = False
    """Nodes with expired metrics pass without a load check."""
    dominant_resource_weight: Percent = 0
    """Weight of the lowest of a node's scores by resource."""
    # After the dominant weight: the default depends on it.
    resource_weights: ResourceMap[PositivePercent] = Field(
        default_factory=dict, validate_default=True
    )
    """Weight of each resource in the score, 1 to 100. Without a default if `dominantResourceWeight`
    is given. Each needs a scaling factor."""
    usage_thresholds: ResourceMap[Percent] = Field(default_factory=_USAGE_THRESHOLDS.copy)
    """Percent of allocatable above which a node is refused; 0 leaves a resource out. A map replaces
    the whole default. The default for cpu is the `hotPercent` of `overutilizationRisk` if
    OverutilizationRisk is a score. It is 65, as in Koordinator, if the policy gives
    `plugins.filter`, names LoadAwareScheduling as a score, or has `compat: koordinator`."""
    prod_usage_thresholds: ResourceMap[Int64] = Field(default_factory=dict)
    """Thresholds for pods of class prod, compared with the usage of prod pods alone."""
    prod_usage_include_sys: bool = False
    """Usage of the system counts as usage of prod pods."""
    score_according_prod_usage: bool = False
    """Pods of class prod are scored by the usage of prod pods."""
    estimated_scaling_factors: ResourceMap[PositivePercent] = Field(
        default_factory=dict, validate_default=True
    )
    """Percent of its request or limit that a pod is expected to use. A map extends the default."""
    estimated_seconds_after_pod_scheduled: Int64 | None = None
    """How long after its placement a pod counts by its estimate."""
    estimated_seconds_after_initialized: Int64 | None = None
    """How long after its initialization a pod counts by its estimate."""
    allow_customize_estimation: bool = False
    """Annotations of pods may change factors and seconds."""
    aggregated: AggregatedArgs | None = None
    """Filter and score by a statistic of a window instead of the mean usage."""
    supported_resources: Items[ResourceName] = ()
    """Further resources, which only annotations of nodes name."""
    check_both: Annotated[bool, Field(exclude_if=is_false)] = False
    """Pods of class prod must pass the prod thresholds and the thresholds of the whole node (not in
    Koordinator)."""

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_thresholds(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("usageThresholds") == {}:
            return {key: value for key, value in data.items() if key != "usageThresholds"}
        return data

    @field_validator("resource_weights")
    @classmethod
    def _fill_weights(cls, weights: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        # An invalid dominant weight is reported separately and must not cause a second error here.
        only_dominant = info.data.get("dominant_resource_weight", 1) != 0
        return weights if weights or only_dominant else dict(_WEIGHTS)

    @field_validator("estimated_scaling_factors")
    @classmethod
    def _fill_factors(cls, factors: dict[str, int]) -> dict[str, int]:
        return {**_SCALING_FACTORS, **factors}

    def conflicts(self) -> Iterable[Conflict]:
        """Every resource with a weight needs a scaling factor."""
        for resource in self.resource_weights:
            if resource not in self.estimated_scaling_factors:
                yield Conflict(
                    ("resourceWeights", resource),
                    "the resource has a weight, but no scaling factor; "
                    f'give estimatedScalingFactors["{resource}"] or remove the weight',
                    ("resourceWeights", "dominantResourceWeight", "estimatedScalingFactors"),
                )

    def with_cpu_threshold(self, cpu_percent: int) -> Self:
        """Return the arguments with another default threshold of cpu."""
        if "usage_thresholds" in self.model_fields_set:
            return self
        args = self.model_copy(
            update={"usage_thresholds": {**_USAGE_THRESHOLDS, "cpu": cpu_percent}}
        )
        args.model_fields_set.discard("usage_thresholds")
        return args

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of all resources of filter and score, sorted (docs/reference/upstream.md A1)."""
        names = {"cpu", "memory", *self.supported_resources}
        for amounts in (
            self.usage_thresholds,
            self.prod_usage_thresholds,
            self.aggregated.usage_thresholds if self.aggregated else {},
            self.resource_weights,
            self.estimated_scaling_factors,
        ):
            names.update(amounts)
        return tuple(sorted(names))
