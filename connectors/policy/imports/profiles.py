"""Profiles of schedulers and deschedulers: their plugins, and arguments of plugins.

Koordinator's arguments keep their names in a policy, so they are taken over as they are and
checked with the policy.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.policy.imports.documents import Source
from connectors.policy.imports.translation import (
    Origin,
    Rule,
    Translation,
    apply,
    items,
    keep,
    say,
)
from connectors.policy.imports.unsupported import BALANCE, UNSUPPORTED
from schemas.policy import Policy
from schemas.policy.errors import Path
from schemas.policy.parts import field_names, inner_model
from schemas.policy.wording import describe, nearest

#: Arguments that a policy has, by plugin: the section, and fields that a section does not have.
ARGUMENTS: dict[str, tuple[str, Mapping[str, Rule]]] = {
    "LoadAwareScheduling": (
        "loadAware",
        {"estimator": say("handled elsewhere", "there is one estimator, Koordinator's default")},
    ),
    "NodeResourcesFit": (
        "resourcesFit",
        {
            "ignoredResources": say(
                "lost", "the filter looks at every resource that a pod requests"
            ),
            "ignoredResourceGroups": say("lost", "the filter looks at every resource"),
        },
    ),
    "NodeResourcesBalancedAllocation": ("balancedAllocation", {}),
    "LowNodeLoad": ("rebalance", {}),
    "MigrationController": (
        "migration",
        {
            "maxConcurrentReconciles": say("handled elsewhere", "one writer decides for a cluster"),
        },
    ),
    "DefaultEvictor": ("evictor", {}),
}
#: Fields that only loadstream has.
_OURS = ("checkBoth", "estimateBy", "estimateMarginPercent")
_SECTIONS = {field.alias or name: field for name, field in Policy.model_fields.items()}
#: Fields with `include` and `exclude`, and words that people write for these.
_NAMESPACES = ("evictableNamespaces", "namespaces")
_MEANT = {"only": "include", "allow": "include", "except": "exclude", "ignore": "exclude"}


@dataclass(frozen=True, slots=True)
class Named:
    """A plugin in a list of a profile."""

    name: str
    point: str
    path: Path
    weight: Any = None


class Profile:
    """Plugins and arguments of one profile, or of several that do not contradict each other."""

    def __init__(self, source: Source, points: tuple[str, ...]) -> None:
        self.source = source
        self.points = points
        self.enabled: list[Named] = []
        self.disabled: list[Named] = []
        self.args: dict[str, tuple[Any, Path]] = {}
        self.node_selector: tuple[Any, Path] = (None, ())

    @property
    def rules(self) -> dict[str, Rule]:
        """Rules of `plugins` and `pluginConfig`."""
        return {"plugins": self._read_plugins, "pluginConfig": self._read_args}

    def finds(self, name: str, *points: str) -> Named | None:
        """Return where a plugin is enabled at one of some extension points."""
        return next((n for n in self.enabled if n.name == name and n.point in points), None)

    def names(self) -> dict[str, Path]:
        """Return the plugins that are enabled or have arguments, each with a place."""
        return {name: path for name, (_, path) in self.args.items()} | {
            each.name: each.path for each in reversed(self.enabled)
        }

    def _read_plugins(self, to: Translation, source: Source, path: Path, value: Any) -> None:
        lists: dict[str, Rule] = {"enabled": self._read_names, "disabled": self._read_names}
        apply(to, source, path, value, dict.fromkeys(self.points, lists))

    def _read_names(self, to: Translation, source: Source, path: Path, value: Any) -> None:
        for index, item in items(to, source, path, value):
            at = (*path, index)
            entry = {"name": item} if isinstance(item, str) else item
            apply(to, source, at, entry, {"name": keep, "weight": keep})
            name = entry.get("name") if isinstance(entry, dict) else None
            if isinstance(name, str):
                listed = self.enabled if path[-1] == "enabled" else self.disabled
                listed.append(Named(name, str(path[-2]), at, entry.get("weight")))
            elif isinstance(entry, dict):
                to.problem(source, at, "required, but not given: name")

    def _read_args(self, to: Translation, source: Source, path: Path, value: Any) -> None:
        for index, item in items(to, source, path, value):
            at = (*path, index)
            if isinstance(item, dict) and "plugins" in item:
                message = "unknown field; it belongs in the profile: indent it less"
                to.problem(source, (*at, "plugins"), message)
            apply(to, source, at, item, {"name": keep, "args": keep, "plugins": keep})
            name = item.get("name") if isinstance(item, dict) else None
            if not isinstance(name, str):
                to.problem(source, at, "required, but not given: name, beside args")
                continue
            args = (item.get("args") or {}, (*at, "args"))
            if self.args.setdefault(name, args)[0] != args[0]:
                line = source.line_of(self.args[name][1])
                message = f"found other arguments of {name}, the first are in line {line}"
                to.problem(source, (*at, "args"), f"{message}; loadstream has one set: keep one")

    def take_args(self, to: Translation, name: str) -> None:
        """Take over the arguments of a plugin whose names the policy has kept."""
        given = self.args.get(name)
        if given is None:
            return
        args, path = given
        section, special = ARGUMENTS[name]
        if not isinstance(args, dict):
            to.problem(self.source, path, f"found {describe(args)}; allowed is a map")
            return
        kind = args.get("kind", f"{name}Args")
        if kind != f"{name}Args":
            message = f"found {describe(kind)}; allowed here is {name}Args"
            to.problem(self.source, (*path, "kind"), message)
        model = inner_model(_SECTIONS[section].annotation)
        known = [each for each in field_names(model or Policy) if each not in _OURS]
        for field, value in args.items():
            at = (*path, field)
            if value is None or field in ("apiVersion", "kind"):
                continue
            if field in special:
                apply(to, self.source, at, value, special[field])
            elif field not in known:
                hint = _hint(field, section, known)
                to.problem(self.source, at, f"unknown field{hint}")
            elif not _has_wrong_keys(to, self.source, at, field, value):
                self._put(to, (section, field), at, value, name)
        to.report("taken over", name, f"section {section}", self.source, path)

    def _put(self, to: Translation, at: tuple[str, str], path: Path, value: Any, name: str) -> None:
        if at == ("migration", "arbitrationArgs") and isinstance(value, dict):
            # Arbitration always happens, there as well.
            value = {key: inner for key, inner in value.items() if key != "enabled"}
        to.put(at, value, Origin(self.source, path, name))

    def report_others(self, to: Translation, ours: Iterable[str]) -> None:
        """Report the plugins that loadstream does not have, enabled or only configured."""
        known = {*ours, *UNSUPPORTED, *ARGUMENTS}
        for name, path in self.names().items():
            points = {each.point for each in self.enabled if each.name == name}
            group, text = UNSUPPORTED.get(name, ("lost", "loadstream has no such plugin"))
            if name not in known:
                text += (
                    _similar(name, known) or "; keep the system that has it for pods that need it"
                )
            if name in BALANCE and points == {"deschedule"}:
                text = f"under deschedule it never runs, it is a balance plugin; {text}"
            elif name in ours:
                continue
            elif not points:
                text += " (it is configured here, and not enabled)"
            to.report(group, name, text, self.source, path)
        for each in self.disabled:
            if each.name not in (*known, "*") and (hint := _similar(each.name, known)):
                text = f"there is no such plugin, so nothing is disabled{hint}"
                to.report("lost", each.name, text, self.source, each.path)


def _similar(name: str, known: Iterable[str]) -> str:
    """Return the name that was probably meant, as a question, or nothing."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
    return f'; did you mean "{close[0]}"?' if close else ""


def _hint(field: str, section: str, known: list[str]) -> str:
    """Return where a field belongs, or which name was probably meant."""
    if field in ("name", "plugins"):
        return "; it belongs beside args: indent it less"
    model = inner_model(_SECTIONS[section].annotation)
    for name, info in (model.model_fields if model else {}).items():
        inner = inner_model(info.annotation)
        if inner is not None and field in field_names(inner):
            return f"; it belongs inside {info.alias or name}: indent it more"
    return nearest(field, known)


def _has_wrong_keys(to: Translation, source: Source, at: Path, field: str, value: Any) -> bool:
    """Report keys of a choice of namespaces other than include and exclude."""
    if field not in _NAMESPACES or not isinstance(value, dict):
        return False
    wrong = [key for key in value if key not in ("include", "exclude")]
    for key in wrong:
        meant = next((name for word, name in _MEANT.items() if word in key.lower()), None)
        hint = f'; did you mean "{meant}"?' if meant else nearest(key, ("include", "exclude"))
        to.problem(source, (*at, key), f"unknown field{hint}")
    return bool(wrong)
