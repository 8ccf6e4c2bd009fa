"""A cluster's whole policy: from YAML text to frozen values that engines read.

    text ──▶ read_policy ──▶ Policy ──▶ engines
                 │              └─────▶ effective_yaml, digest
                 └─▶ PolicyError: every problem at once, with path and line

Arguments keep the names and shapes of Koordinator's LoadAwareSchedulingArgs, LowNodeLoadArgs,
MigrationControllerArgs and DefaultEvictorArgs, and configurations of the Kubernetes scheduler and the
descheduler that hold them can be pasted in. Reading is strict; nothing here does any I/O.
"""

from typing import Any

from schemas.policy.collecting import CollectPolicies, CollectPolicy
from schemas.policy.document import Policy
from schemas.policy.errors import PolicyError, Problem, path_text
from schemas.policy.loadaware import AggregatedArgs, LoadAwareSchedulingArgs
from schemas.policy.lownodeload import Compat, LowNodeLoadArgs, NodePool
from schemas.policy.plugins import BUILT_IN, LOAD_AWARE, KnownPlugins
from schemas.policy.printer import effective_yaml
from schemas.policy.reader import read_policy
from schemas.policy.resourcelimits import NodeResourceLimitsAwareArgs
from schemas.policy.validation import validated

__all__ = [
    "BUILT_IN",
    "LOAD_AWARE",
    "AggregatedArgs",
    "CollectPolicies",
    "CollectPolicy",
    "Compat",
    "KnownPlugins",
    "LoadAwareSchedulingArgs",
    "LowNodeLoadArgs",
    "NodePool",
    "NodeResourceLimitsAwareArgs",
    "Policy",
    "PolicyError",
    "Problem",
    "effective_yaml",
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
    """LowNodeLoadArgs from plain values in upstream's names, with the top level's defaults filled in.

    Raises `PolicyError` with every problem; `compat` says whose rules hold.
    """
    policy = validated(
        Policy,
        {"compat": compat, "rebalance": raw},
        place=lambda path: (path_text(path[1:]), None),
    )
    return policy.rebalance
