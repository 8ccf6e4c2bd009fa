"""Rules for maps whose keys are names of resources: unknown names, impossible percentages.

For example `loadAware: {usageThresholds: {memroy: 80}}` would switch the filter off for memory,
because no node reports `memroy`.
"""

from collections.abc import Iterator
from typing import Any, get_args

from schemas.base.message import ResourceName
from schemas.policy.document import Policy
from schemas.policy.errors import Finding, Path
from schemas.policy.parts import PolicyPart, get_alias
from schemas.policy.sections.overutilization_risk import RiskResource
from schemas.policy.sections.rebalance import COUNTERPARTS
from schemas.policy.sections.resource_limits import ResourceWeight
from schemas.policy.wording import nearest

#: Resources of Kubernetes without a slash in their names, and prefixes of further resources.
KUBERNETES_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods", "storage")
_PREFIXES = ("hugepages-", "attachable-volumes-")


def _walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, PolicyPart]]:
    """Yield a part and all parts in it, with their paths."""
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _walk(item, (*path, index))
    elif isinstance(value, PolicyPart):
        yield path, value
        for name, field in type(value).model_fields.items():
            yield from _walk(getattr(value, name), (*path, field.alias or name))


def _list_maps(policy: Policy) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """Yield path, field and values of all maps whose keys are names of resources."""
    for path, part in _walk(policy):
        for name, field in type(part).model_fields.items():
            values = getattr(part, name)
            if isinstance(values, dict) and _names_resources(field.annotation):
                yield (*path, field.alias or name), name, values


def _list_names(policy: Policy) -> Iterator[tuple[Path, str]]:
    for path, _, values in _list_maps(policy):
        for name in values:
            yield (*path, name), name
    for path, part in _walk(policy):
        if isinstance(part, RiskResource | ResourceWeight):
            yield (*path, "name"), part.name
    for index, name in enumerate(policy.load_aware.supported_resources):
        yield ("loadAware", "supportedResources", index), name


def _names_resources(annotation: Any) -> bool:
    """Tell whether a type is a map with names of resources, or a union with such a map."""
    arguments = get_args(annotation)
    return bool(arguments) and (
        arguments[0] == ResourceName or any(map(_names_resources, arguments))
    )


def find_unknown_resources(policy: Policy) -> Iterator[Finding]:
    """Yield names that Kubernetes does not define, and that have no slash between two parts."""
    seen: set[str] = set()
    for path, name in _list_names(policy):
        prefix, _, suffix = name.partition("/")
        is_known = (prefix and suffix) or name in KUBERNETES_RESOURCES or name.startswith(_PREFIXES)
        # The reader adds weights for every threshold.
        if is_known or ("resourceWeights" in path and name in seen):
            continue
        seen.add(name)
        suggestion = nearest(name, KUBERNETES_RESOURCES)
        yield (
            path,
            f"found {name!r}, which is not a resource of Kubernetes (other resources have a slash in "
            f"their names, such as nvidia.com/gpu){suggestion}",
        )


def find_thresholds_above_100(policy: Policy) -> Iterator[Finding]:
    """Yield thresholds that usage cannot exceed, because they are percentages of a node's capacity."""
    for path, field, values in _list_maps(policy):
        if field.endswith("thresholds"):
            for name, percent in values.items():
                if percent > 100:
                    yield (*path, name), f"found {percent:g}; allowed is a percentage, at most 100"


def find_lows_of_no_node(policy: Policy) -> Iterator[Finding]:
    """Yield low thresholds below 1 percent: every node uses more CPU and memory, so no node is a target."""
    for at, part in policy.rebalance.list_written():
        for name, percent in (part.low_thresholds or {}).items():
            if percent < 1 and name in ("cpu", "memory") and not part.use_deviation_thresholds:
                yield (
                    (*at, "lowThresholds", name),
                    f"found {percent:g} %, and every node uses more, so no node is a target; give a percentage such as 30",
                )


def find_equal_thresholds(policy: Policy) -> Iterator[Finding]:
    """Yield resources with equal low and high thresholds.

    Every node is then either low or hot, and one pod can change that. 100 for both switches a resource off.
    """
    for at, part in policy.rebalance.list_written():
        for high, low in COUNTERPARTS:
            lows, highs = getattr(part, low) or {}, getattr(part, high) or {}
            for name, percent in lows.items():
                if percent == highs.get(name) != 100 and not part.use_deviation_thresholds:
                    yield (
                        (*at, get_alias(type(part), low), name),
                        f"found {percent:g}, which is also the high threshold: every node is a target or "
                        "hot, and one pod can change that; choose a lower low threshold",
                    )
