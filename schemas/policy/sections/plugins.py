"""`plugins`: which filters and scores decide, in which order and with which weights.

Names come from the registry of the decision core, which this package does not know; the reader
takes them as an argument and has the built-in ones for a default.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ValidationInfo, field_validator

from schemas.policy.parts import Conflict, Items, Name, PolicyPart, refuse, whole
from schemas.policy.sections.rebalance import Compat
from schemas.policy.wording import nearest

#: Largest weight of a score: totals stay far inside 64 bits.
WEIGHT_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class KnownPlugins:
    """Names that may stand in a policy; those enabled by default come first, in that order."""

    filter: tuple[str, ...]
    score: tuple[str, ...]
    balance: tuple[str, ...]


#: The filter and score by real load.
LOAD_AWARE = "LoadAwareScheduling"
#: The score by limits.
LIMITS_AWARE = "NodeResourceLimitsAware"
#: The filter and score by requests.
RESOURCES_FIT = "NodeResourcesFit"
#: The score by how evenly resources are requested.
BALANCED_ALLOCATION = "NodeResourcesBalancedAllocation"
#: Moves pods from hot nodes to cool ones, by thresholds.
LOW_NODE_LOAD = "LowNodeLoad"
#: The score by the risk that nodes are overutilized, and the strategy that lowers it.
OVERUTILIZATION_RISK = "OverutilizationRisk"

BUILT_IN = KnownPlugins(
    filter=(
        "NodeName",
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        RESOURCES_FIT,
        LOAD_AWARE,
    ),
    score=(
        LOAD_AWARE,
        LIMITS_AWARE,
        OVERUTILIZATION_RISK,
        RESOURCES_FIT,
        BALANCED_ALLOCATION,
    ),
    balance=(LOW_NODE_LOAD, OVERUTILIZATION_RISK),
)

#: What is on where a policy does not say: what leaves nodes coolest in the closed loop
#: (docs/explanation/closed-loop.md).
_DEFAULT_SCORES = (OVERUTILIZATION_RISK,)
_DEFAULT_BALANCE = (LOW_NODE_LOAD, OVERUTILIZATION_RISK)
#: The same with `compat: koordinator`.
_UPSTREAM_SCORES, _UPSTREAM_BALANCE = (LOAD_AWARE,), (LOW_NODE_LOAD,)


def named(value: Any) -> Any:
    """A bare name is short for `name: it`."""
    return {"name": value} if isinstance(value, str) else value


class EnabledPlugin(PolicyPart):
    """A plugin that is enabled."""

    name: Name
    """Name of the plugin; an entry that is only a name means the same."""


class ScorePlugin(EnabledPlugin):
    """A score that is enabled; the total of a node is the sum of weight times score."""

    weight: Annotated[int, whole(1, WEIGHT_MAX)] = 1
    """The total of a node is the sum of weight times score."""


_Plugins = Items[Annotated[EnabledPlugin, BeforeValidator(named)]]
_ScorePlugins = Items[Annotated[ScorePlugin, BeforeValidator(named)]]


class PluginChoice(PolicyPart):
    """Enabled plugins in the order in which they run. A list that is not given is the default one."""

    filter: _Plugins = tuple(EnabledPlugin(name=name) for name in BUILT_IN.filter)
    """Filters that a node must pass."""
    score: _ScorePlugins = tuple(ScorePlugin(name=name) for name in _DEFAULT_SCORES)
    """Scores that rank the nodes."""
    balance: _Plugins = tuple(EnabledPlugin(name=name) for name in _DEFAULT_BALANCE)
    """Plugins that move pods; LowNodeLoad without thresholds moves none."""

    def filters(self, name: str) -> bool:
        """Whether a filter of this name is enabled."""
        return any(plugin.name == name for plugin in self.filter)

    def scores(self, name: str) -> bool:
        """Whether a score of this name is enabled."""
        return any(plugin.name == name for plugin in self.score)

    def balances(self, name: str) -> bool:
        """Whether a strategy of this name moves pods."""
        return any(plugin.name == name for plugin in self.balance)

    @property
    def names_load_aware(self) -> bool:
        """Whether LoadAwareScheduling is on by its name: filters are given, or it is a score."""
        return "filter" in self.model_fields_set or self.scores(LOAD_AWARE)

    def resolved(self, compat: Compat) -> Self:
        """The same, where lists that are not given are those of a mode: Koordinator has neither the
        score nor the moves by risk."""
        if compat == "loadstream":
            return self
        lists = {
            "score": tuple(ScorePlugin(name=name) for name in _UPSTREAM_SCORES),
            "balance": tuple(EnabledPlugin(name=name) for name in _UPSTREAM_BALANCE),
        }
        given = self.model_fields_set
        return self.model_copy(
            update={name: value for name, value in lists.items() if name not in given}
        )

    @field_validator("filter", "score", "balance")
    @classmethod
    def _known_once(
        cls, plugins: tuple[EnabledPlugin, ...], info: ValidationInfo
    ) -> tuple[EnabledPlugin, ...]:
        context = info.context or {}
        names = asdict(context.get("known_plugins", BUILT_IN))
        known = names.pop(info.field_name or "")
        refuse(cls.__name__, _list_conflicts(plugins, known, names), plugins)
        return plugins


def _list_conflicts(
    plugins: tuple[EnabledPlugin, ...],
    known: tuple[str, ...],
    others: dict[str, tuple[str, ...]],
) -> Iterator[Conflict]:
    seen: set[str] = set()
    for index, plugin in enumerate(plugins):
        if plugin.name not in known:
            lists = [name for name, names in others.items() if plugin.name in names]
            message = f"found {plugin.name!r}{nearest(plugin.name, known)}"
            if lists:
                where = " and ".join(f"plugins.{name}" for name in lists)
                message = (
                    f"found {plugin.name!r}, a plugin for {where}; allowed: {', '.join(known)}"
                )
            yield Conflict((index, "name"), message, ())
        elif plugin.name in seen:
            yield Conflict((index, "name"), f"found {plugin.name!r} a second time", ())
        seen.add(plugin.name)
