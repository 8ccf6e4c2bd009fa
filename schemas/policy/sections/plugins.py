"""`plugins`: enabled filters and scores, their order and weights.

Valid names come from the registry of the decision core, which this package does not import. The
reader gets them as an argument; by default they are the built-in plugins.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ValidationInfo, field_validator

from schemas.policy.parts import Conflict, Items, Name, PolicyPart, int_range, raise_conflicts
from schemas.policy.sections.rebalance import Compat
from schemas.policy.wording import nearest

#: Largest weight of a score: totals fit easily into 64 bits.
WEIGHT_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class KnownPlugins:
    """Names of plugins that a policy may enable; default plugins first, in their order."""

    filter: tuple[str, ...]
    score: tuple[str, ...]
    balance: tuple[str, ...]


#: Filter and score by real load.
LOAD_AWARE = "LoadAwareScheduling"
#: Score by limits.
LIMITS_AWARE = "NodeResourceLimitsAware"
#: Filter and score by requests.
RESOURCES_FIT = "NodeResourcesFit"
#: Score by how evenly resources are requested.
BALANCED_ALLOCATION = "NodeResourcesBalancedAllocation"
#: Moves pods from hot nodes to cool ones, by thresholds.
LOW_NODE_LOAD = "LowNodeLoad"
#: Score by the risk of overutilization, and the strategy that moves pods to lower it.
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

#: Default plugins: they gave the coolest nodes in the closed loop (docs/explanation/closed-loop.md).
_DEFAULT_SCORES = (OVERUTILIZATION_RISK,)
_DEFAULT_BALANCE = (LOW_NODE_LOAD, OVERUTILIZATION_RISK)
#: Default plugins with `compat: koordinator`.
_UPSTREAM_SCORES, _UPSTREAM_BALANCE = (LOAD_AWARE,), (LOW_NODE_LOAD,)


def expand_name(value: Any) -> Any:
    """Return `{"name": value}` for a plain name."""
    return {"name": value} if isinstance(value, str) else value


class EnabledPlugin(PolicyPart):
    name: Name
    """Name of the plugin; an entry that is only a name means the same."""


class ScorePlugin(EnabledPlugin):
    """An enabled score; the total of a node is the sum of weight times score."""

    weight: Annotated[int, int_range(1, WEIGHT_MAX)] = 1
    """The total of a node is the sum of weight times score."""


_Plugins = Items[Annotated[EnabledPlugin, BeforeValidator(expand_name)]]
_ScorePlugins = Items[Annotated[ScorePlugin, BeforeValidator(expand_name)]]


class PluginChoice(PolicyPart):
    """Enabled plugins in the order in which they run. An absent list is the default list."""

    filter: _Plugins = tuple(EnabledPlugin(name=name) for name in BUILT_IN.filter)
    """Filters that a node must pass."""
    score: _ScorePlugins = tuple(ScorePlugin(name=name) for name in _DEFAULT_SCORES)
    """Scores that rank the nodes."""
    balance: _Plugins = tuple(EnabledPlugin(name=name) for name in _DEFAULT_BALANCE)
    """Strategies that move pods; LowNodeLoad moves none without thresholds."""

    def filters(self, name: str) -> bool:
        return any(plugin.name == name for plugin in self.filter)

    def scores(self, name: str) -> bool:
        return any(plugin.name == name for plugin in self.score)

    def balances(self, name: str) -> bool:
        return any(plugin.name == name for plugin in self.balance)

    @property
    def names_load_aware(self) -> bool:
        """Whether the policy itself enables LoadAwareScheduling: it gives filters, or enables the
        score."""
        return "filter" in self.model_fields_set or self.scores(LOAD_AWARE)

    def resolve(self, compat: Compat) -> Self:
        """Return the plugins with the default lists of this mode: Koordinator has neither score nor
        moves by risk."""
        if compat == "loadstream":
            return self
        lists = {
            "score": tuple(ScorePlugin(name=name) for name in _UPSTREAM_SCORES),
            "balance": tuple(EnabledPlugin(name=name) for name in _UPSTREAM_BALANCE),
        }
        set_lists = self.model_fields_set
        return self.model_copy(
            update={name: value for name, value in lists.items() if name not in set_lists}
        )

    @field_validator("filter", "score", "balance")
    @classmethod
    def _check_names(
        cls, plugins: tuple[EnabledPlugin, ...], info: ValidationInfo
    ) -> tuple[EnabledPlugin, ...]:
        context = info.context or {}
        names = asdict(context.get("known_plugins", BUILT_IN))
        allowed = names.pop(info.field_name or "")
        raise_conflicts(cls.__name__, _list_conflicts(plugins, allowed, names), plugins)
        return plugins


def _list_conflicts(
    plugins: tuple[EnabledPlugin, ...],
    allowed: tuple[str, ...],
    others: dict[str, tuple[str, ...]],
) -> Iterator[Conflict]:
    seen: set[str] = set()
    for index, plugin in enumerate(plugins):
        if plugin.name not in allowed:
            lists = [name for name, names in others.items() if plugin.name in names]
            message = f"found {plugin.name!r}{nearest(plugin.name, allowed)}"
            if lists:
                where = " and ".join(f"plugins.{name}" for name in lists)
                message = (
                    f"found {plugin.name!r}, a plugin for {where}; allowed: {', '.join(allowed)}"
                )
            yield Conflict((index, "name"), message, ())
        elif plugin.name in seen:
            yield Conflict((index, "name"), f"found {plugin.name!r} a second time", ())
        seen.add(plugin.name)
