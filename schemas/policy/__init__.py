"""The policy of a cluster: from YAML text to frozen values that engines read.

    text ──▶ read_policy ──▶ Policy ──▶ engines
                 │              └─────▶ effective_yaml, digest
                 └─▶ PolicyError: every problem at once, with path and line

Arguments keep the names and shapes of Koordinator's LoadAwareSchedulingArgs, LowNodeLoadArgs,
MigrationControllerArgs and DefaultEvictorArgs. Reading is strict and does no I/O.

    yamltext         YAML to plain values with their line numbers
    validation       plain values to a model, or every problem at once
    reader           text to policy (uses the two modules above)
    printer          policy to text
    errors           problems of a policy, with path and line
    wording          describes values and suggests names in messages
    lint             rules across sections: errors and warnings
    resource_maps    rules for maps with names of resources
    document         class `Policy`; sections/ has its sections
    parts            base class of sections, and types of their fields
    durations        durations as Kubernetes writes them
    selectors        label selectors
    windows          weekly windows
"""

from schemas.policy.document import Policy
from schemas.policy.errors import PolicyError, Problem
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
    "read_policy",
]
