"""Profiles of schedulers and deschedulers: their plugins, and arguments of plugins.

Koordinator's arguments have the same names in a policy, so they are copied and checked with the
policy.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from connectors.policies.imports.documents import DocumentNode
from connectors.policies.imports.translation import (
    Rule,
    Translation,
    apply,
    apply_to_items,
    elsewhere,
    lost,
    skip,
)
from connectors.policies.imports.unsupported import BALANCE, UNSUPPORTED
from schemas.policy import Policy
from schemas.policy.parts import field_names, inner_model
from schemas.policy.wording import describe, nearest

#: Section for the arguments of each plugin, and rules for arguments that the section does not have.
ARGUMENTS: dict[str, tuple[str, Mapping[str, Rule]]] = {
    "LoadAwareScheduling": (
        "loadAware",
        {"estimator": elsewhere("there is one estimator, Koordinator's default")},
    ),
    "NodeResourcesFit": (
        "resourcesFit",
        dict.fromkeys(
            ("ignoredResources", "ignoredResourceGroups"),
            lost("the filter looks at every resource that a pod requests"),
        ),
    ),
    "NodeResourcesBalancedAllocation": ("balancedAllocation", {}),
    "LowNodeLoad": ("rebalance", {}),
    "MigrationController": (
        "migration",
        {"maxConcurrentReconciles": elsewhere("one writer decides for a cluster")},
    ),
    "DefaultEvictor": ("evictor", {}),
}
#: Fields that only loadstream has.
_OURS = ("checkBoth",)
_MODELS = {field.alias or name: inner_model(field.annotation) or Policy
           for name, field in Policy.model_fields.items()}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProfilePlugin:
    """A plugin in a list of a profile."""

    name: str
    point: str
    node: DocumentNode

    @property
    def weight(self) -> object:
        """The weight next to the name; None if it is not set."""
        return self.node.child("weight").value


class Profile:
    """Plugins and arguments of one profile."""

    def __init__(self, points: tuple[str, ...]) -> None:
        self.points = points
        self.enabled: list[ProfilePlugin] = []
        self.disabled: list[ProfilePlugin] = []
        self.args: dict[str, DocumentNode] = {}

    @property
    def rules(self) -> dict[str, Rule]:
        """Rules of `plugins` and `pluginConfig`."""
        lists: dict[str, Rule] = {
            "enabled": apply_to_items(partial(_read_plugin, self.enabled)),
            "disabled": apply_to_items(partial(_read_plugin, self.disabled)),
        }
        return {
            "plugins": dict.fromkeys(self.points, lists),
            "pluginConfig": apply_to_items(self._read_args),
        }

    def find_plugin(self, name: str, *points: str) -> ProfilePlugin | None:
        """Return the entry that enables a plugin at one of these extension points, if any."""
        return next((n for n in self.enabled if n.name == name and n.point in points), None)

    def list_plugins(self) -> dict[str, DocumentNode]:
        """Return the plugins that are enabled or have arguments, each with its node in the document."""
        return self.args | {plugin.name: plugin.node for plugin in reversed(self.enabled)}

    def _read_args(self, result: Translation, node: DocumentNode) -> None:
        if node.child("plugins").value is not None:
            message = "unknown field; it belongs in the profile: indent it less"
            result.add_problem(node.child("plugins"), message)
        apply(result, node, {"name": skip, "args": skip, "plugins": skip})
        name, args = node.child("name").value, node.child("args")
        if not isinstance(name, str):
            result.add_problem(node, "required, but not given: name, beside args")
        elif self.args.setdefault(name, args).value != args.value:
            message = (
                f"found other arguments of {name}, the first are in line {self.args[name].line}"
            )
            result.add_problem(args, f"{message}; keep one")

    def copy_args(self, result: Translation, name: str) -> None:
        """Copy the arguments of a plugin to its section; the policy uses the same names."""
        args = self.args.get(name)
        if args is None or args.value is None or not result.is_kind(args, dict):
            return
        section, special = ARGUMENTS[name]
        kind = args.child("kind")
        if kind.value not in (None, f"{name}Args"):
            result.add_problem(kind, f"found {describe(kind.value)}; allowed here is {name}Args")
        fields = [field for field in field_names(_MODELS[section]) if field not in _OURS]
        for step, node in args.children():
            field = str(step)
            if field in special:
                apply(result, node, special[field])
            elif field not in (*fields, "apiVersion", "kind"):
                result.add_problem(node, f"unknown field{_suggest_field(field, section, fields)}")
            elif field in fields:
                value = node.value
                if field == "arbitrationArgs" and isinstance(value, dict):
                    # Arbitration cannot be switched off, in Koordinator either.
                    value = {key: inner for key, inner in value.items() if key != "enabled"}
                result.set_value((section, field), value, node, name)
        result.report("taken over", args, f"section {section}", name)

    def report_others(self, result: Translation, ours: Iterable[str]) -> None:
        """Report the plugins that loadstream does not have, enabled or only configured."""
        names = {*ours, *UNSUPPORTED, *ARGUMENTS}
        for name, node in self.list_plugins().items():
            points = {plugin.point for plugin in self.enabled if plugin.name == name}
            group, text = UNSUPPORTED.get(name, ("lost", "loadstream has no such plugin"))
            if name not in names:
                hint = _suggest_name(name, names)
                text += hint or "; keep the system that has it for pods that need it"
            if name in BALANCE and points == {"deschedule"}:
                text = "name it under balance" if name in ours else text
                text = f"under deschedule it never runs, it is a balance plugin; {text}"
            elif name in ours:
                continue
            elif not points:
                text += " (it is configured here, and not enabled)"
            result.report(group, node, text, name)
        for plugin in self.disabled:
            if plugin.name not in (*names, "*") and (hint := _suggest_name(plugin.name, names)):
                text = f"there is no such plugin, so nothing is disabled{hint}"
                result.report("lost", plugin.node, text, plugin.name)


def _read_plugin(plugins: list[ProfilePlugin], result: Translation, node: DocumentNode) -> None:
    if not isinstance(node.value, str):
        apply(result, node, {"name": skip, "weight": skip})
    name = node.value if isinstance(node.value, str) else node.child("name").value
    if isinstance(name, str):
        plugins.append(ProfilePlugin(name, str(node.path[-3]), node))
    elif isinstance(node.value, dict):
        result.add_problem(node, "required, but not given: name")


def _suggest_name(name: str, known_names: Iterable[str]) -> str:
    """Ask whether a similar name was meant; empty if no name is similar."""
    similar = difflib.get_close_matches(name, known_names, n=1, cutoff=0.85)
    return f'; did you mean "{similar[0]}"?' if similar else ""


def _suggest_field(field: str, section: str, fields: list[str]) -> str:
    """Return where a field belongs, or suggest a similar name."""
    for name, info in _MODELS[section].model_fields.items():
        inner = inner_model(info.annotation)
        if inner is not None and field in field_names(inner):
            return f"; it belongs inside {info.alias or name}: indent it more"
    return nearest(field, fields)
