"""Arguments of single plugins from plain values with upstream's names."""

from typing import Any

from schemas.policy import Compat, LoadAwareSchedulingArgs, LowNodeLoadArgs, Policy
from schemas.policy.errors import format_path
from schemas.policy.validation import build_model


def load_aware_args(raw: dict[str, Any]) -> LoadAwareSchedulingArgs:
    """Return LoadAwareSchedulingArgs from plain values with upstream's names, with all defaults.

    Raises `PolicyError` with every problem.
    """
    return build_model(LoadAwareSchedulingArgs, raw)


def low_node_load_args(raw: dict[str, Any], compat: Compat = "loadstream") -> LowNodeLoadArgs:
    """Return LowNodeLoadArgs from plain values with upstream's names, with the defaults of the top level.

    Raises `PolicyError` with every problem; `compat` selects the rules.
    """
    policy = build_model(
        Policy,
        {"compat": compat, "rebalance": raw},
        locate=lambda path: (format_path(path[1:]), None),
    )
    return policy.rebalance
