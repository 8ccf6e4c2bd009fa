"""A cluster's whole policy: from YAML text to frozen values that engines read.

    text ──▶ read_policy ──▶ Policy ──▶ engines
                 │              └─────▶ effective_yaml, digest
                 └─▶ PolicyError: every problem at once, with path and line

Arguments keep the names and shapes of Koordinator's LoadAwareSchedulingArgs, LowNodeLoadArgs,
MigrationControllerArgs and DefaultEvictorArgs. Reading is strict; nothing here does any I/O.

From text to policy:

    yamltext         YAML to plain values that know their lines
    validation       plain values to a model, or every problem at once
    reader           all of it: text to policy
    printer          policy to text that reads back to the same policy
    errors           every problem, with its place
    wording          words of messages
    lint             rules between the values of a whole policy: errors and warnings
    resource_maps    the same of maps by names of resources

    document         a policy with every default; sections/ has its parts
    parts            what every section has in common
    durations        durations as Kubernetes writes them
    selectors        label selectors
    windows          times of the week
"""

from typing import Any

from schemas.policy.document import Policy
from schemas.policy.errors import PolicyError, Problem, path_text
from schemas.policy.printer import effective_values, effective_yaml, inline_yaml
from schemas.policy.reader import read_policy
from schemas.policy.sections.collect import CollectPolicies, CollectPolicy
from schemas.policy.sections.load_aware import AggregatedArgs, LoadAwareSchedulingArgs
from schemas.policy.sections.overutilization_risk import OverutilizationRiskArgs
from schemas.policy.sections.plugins import (
    BUILT_IN,
    LOAD_AWARE,
    LOW_NODE_LOAD,
    OVERUTILIZATION_RISK,
    KnownPlugins,
)
from schemas.policy.sections.rebalance import Compat, LowNodeLoadArgs, NodePool
from schemas.policy.sections.resource_limits import NodeResourceLimitsAwareArgs
from schemas.policy.sections.risk_moves import RiskMoveArgs
from schemas.policy.validation import validated

__all__ = [
    "BUILT_IN",
    "LOAD_AWARE",
    "LOW_NODE_LOAD",
    "OVERUTILIZATION_RISK",
    "AggregatedArgs",
    "CollectPolicies",
    "CollectPolicy",
    "Compat",
    "KnownPlugins",
    "LoadAwareSchedulingArgs",
    "LowNodeLoadArgs",
    "NodePool",
    "NodeResourceLimitsAwareArgs",
    "OverutilizationRiskArgs",
    "Policy",
    "PolicyError",
    "Problem",
    "RiskMoveArgs",
    "effective_values",
    "effective_yaml",
    "inline_yaml",
    "load_aware_args",
    "low_node_load_args",
    "read_policy",
]


def load_aware_args(raw: dict[str, Any]) -> LoadAwareSchedulingArgs:
    """LoadAwareSchedulingArgs from plain values in upstream's names, with defaults filled in.

    Raises `PolicyError` with every problem.
    """
    return validated(LoadAwareSchedulingArgs, raw)


def low_node_load_args(raw: dict[str, Any], compat: Compat = "loadstream") -> LowNodeLoadArgs:
    """LowNodeLoadArgs from plain values in upstream's names, with the top level's defaults filled
    in.

    Raises `PolicyError` with every problem; `compat` says whose rules hold.
    """
    policy = validated(
        Policy,
        {"compat": compat, "rebalance": raw},
        place=lambda path: (path_text(path[1:]), None),
    )
    return policy.rebalance
