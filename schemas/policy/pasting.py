"""What a pasted configuration of the scheduler or the descheduler means here.

A pasted configuration means what it meant upstream, with these exceptions, which are listed as not
applied: fields about the process (connections, leader election, ports), plugins that loadstream
does not have, and extension points that it does not distinguish. Filters and scores start from
loadstream's default lists. LowNodeLoad is disabled upstream until `balance` enables it, so its
arguments in a pasted descheduler configuration move no pods unless that configuration enables it. A
configuration of Koordinator's descheduler that enables DefaultEvictor in place of
MigrationController evicts directly and has none of MigrationController's limits. There is one
profile here: a second one with settings of its own is refused.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from schemas.policy.assembly import Assembly, ignored_paths
from schemas.policy.errors import Path, PolicyError, path_text
from schemas.policy.extensionpoints import Reference, merged, references, unknown
from schemas.policy.parts import PluginArgs
from schemas.policy.plugins import (
    BALANCED_ALLOCATION,
    RESOURCES_FIT,
    KnownPlugins,
    PluginChoice,
)
from schemas.policy.resourcesfit import NodeResourcesBalancedAllocationArgs, NodeResourcesFitArgs
from schemas.policy.selectors import parse_selector
from schemas.policy.upstream import PASTED
from schemas.policy.validation import validated
from schemas.policy.wording import describe, nearest
from schemas.policy.yamltext import YamlDocument

#: Section of the policy that a plugin's arguments go to.
SECTIONS = {
    "LoadAwareScheduling": "loadAware",
    "NodeResourceLimitsAware": "resourceLimits",
    RESOURCES_FIT: "resourcesFit",
    BALANCED_ALLOCATION: "balancedAllocation",
    "OverutilizationRisk": "overutilizationRisk",
    "LowNodeLoad": "rebalance",
    "MigrationController": "migration",
    "DefaultEvictor": "evictor",
}
#: Plugins whose arguments were listed as not applied before there were sections for them. In a
#: policy that is in force already they may be anything, and stand in several profiles.
_READ_LATER: dict[str, type[PluginArgs]] = {
    RESOURCES_FIT: NodeResourcesFitArgs,
    BALANCED_ALLOCATION: NodeResourcesBalancedAllocationArgs,
}
#: Fields of the scheduler's configuration that have a namesake here.
_SCHEDULER_FIELDS = {
    "podInitialBackoffSeconds": "initialBackoffSeconds",
    "podMaxBackoffSeconds": "maxBackoffSeconds",
}
_DESCHEDULER_FIELDS = (
    "deschedulingInterval",
    "dryRun",
    "maxNoOfPodsToEvictPerNode",
    "maxNoOfPodsToEvictPerNamespace",
    "maxNoOfPodsToEvictTotal",
)
#: Evictors that loadstream stands in for, so that enabling them changes nothing.
_EVICTORS = {
    "DeschedulerConfiguration": ("MigrationController",),
    "DeschedulerPolicy": ("DefaultEvictor",),
}
#: What a profile settles for the pods or nodes that are its own.
_OF_A_PROFILE = ("plugins", "pluginConfig", "nodeSelector")
#: What holds of MigrationController where DefaultEvictor evicts in its place: nothing but that pods
#: leave one by one.
_EVICT_DIRECTLY = {
    "defaultJobMode": "EvictDirectly",
    "objectLimiters": {"workload": {"duration": "0s"}},
    "skipEvictionGates": [
        "ExpectedReplicas",
        "MaxMigratingGlobally",
        "MaxMigratingPerNode",
        "MaxMigratingPerNamespace",
        "MaxMigratingPerWorkload",
        "MaxUnavailablePerWorkload",
    ],
}
#: Arguments that only loadstream has, by the section that they go to.
_OURS = {"loadAware": ("checkBoth", "estimateBy", "estimateMarginPercent")}
#: Arguments that can be pasted as a document of their own, by kind.
_ARGUMENTS = {f"{plugin}Args": section for plugin, section in SECTIONS.items()}


def paste(
    assembly: Assembly, document: YamlDocument, known: KnownPlugins, *, accepted: bool = False
) -> None:
    """Take a pasted configuration into the policy; one that is in force already may have several
    profiles."""
    data = document.value
    kind = data.get("kind")
    name = kind if isinstance(kind, str) else ""
    if name in _ARGUMENTS:
        _refuse_ours(assembly, document, _ARGUMENTS[name], data, ())
        assembly.put((_ARGUMENTS[name],), data, document, ())
        return
    model = PASTED.get(name)
    if model is None:
        hint = nearest(name, [*PASTED, *_ARGUMENTS])
        message = f"found {describe(kind)}{hint}; a policy of loadstream's own has no kind"
        assembly.problem(document, ("kind",), message)
        return
    try:
        validated(model, data, place=lambda path: (path_text(path), document.line_of(path)))
    except PolicyError as error:
        assembly.problems.extend(error.problems)
    _Pasting(assembly, document, model, known, accepted=accepted).take()


def _refuse_ours(
    assembly: Assembly, document: YamlDocument, section: str, args: Any, at: Path
) -> None:
    """Note arguments that upstream would refuse: the document would mean something else there."""
    for name in _OURS.get(section, ()):
        if isinstance(args, dict) and name in args:
            message = f"loadstream's own; give it as {section}.{name} in a policy without kind"
            assembly.problem(document, (*at, name), message)


def _maps(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The maps in a list, with their positions; what is no map was reported by the shape's check."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict):
                yield index, item


class _Pasting:
    """One pasted document on its way into the policy."""

    def __init__(
        self,
        assembly: Assembly,
        document: YamlDocument,
        model: type[BaseModel],
        known: KnownPlugins,
        *,
        accepted: bool,
    ) -> None:
        self.assembly, self.document, self.model, self.known = assembly, document, model, known
        self.accepted = accepted
        self.data: dict[str, Any] = document.value
        self.kind = model.__name__
        self.args: dict[str, Path] = {}
        """Where the arguments of each plugin stand."""

    def take(self) -> None:
        """Take over every value that has an effect; list the others."""
        for path in ignored_paths(self.model, self.data):
            self.ignore(path)
        if self.kind == "KubeSchedulerConfiguration":
            for theirs, ours in _SCHEDULER_FIELDS.items():
                self.put((ours,), (theirs,), self.data.get(theirs))
        else:
            for field in _DESCHEDULER_FIELDS:
                self.put(("descheduling", field), (field,), self.data.get(field))
            self.put_nodes(("nodeSelector",), self.data.get("nodeSelector"))
        plugins, at = self.take_profiles()
        if self.kind == "KubeSchedulerConfiguration":
            self.put_placement(plugins, at)
        else:
            self.put_balance(plugins, at)

    def take_profiles(self) -> tuple[dict[str, Any], Path]:
        """Take over what profiles hold besides plugins; answers the one set of plugins and its
        path."""
        plugins: dict[str, Any] = {}
        chosen: Path = ()
        settled: Path = ()
        for index, profile in _maps(self.data.get("profiles")):
            at = ("profiles", index)
            own = next((name for name in _OF_A_PROFILE if profile.get(name) is not None), None)
            again = own == "plugins" and chosen
            if own is not None and settled and (again or not self.accepted):
                message = (
                    f"found a second profile with settings of its own, the first is {path_text(settled)}; "
                    "loadstream has one for all pods, keep one"
                )
                self.assembly.problem(self.document, (*at, own), message)
                continue
            settled = settled or (at if own is not None else ())
            self.put_args(profile, at)
            if self.kind != "KubeSchedulerConfiguration":
                self.put_nodes((*at, "nodeSelector"), profile.get("nodeSelector"))
            if isinstance(profile.get("plugins"), dict):
                plugins, chosen = profile["plugins"], (*at, "plugins")
        return plugins, chosen

    def ignore(self, path: Path, why: str = "") -> None:
        """List a path of this document as having no effect."""
        self.assembly.ignore(self.document, path, why)

    def put(self, path: tuple[str, ...], origin: Path, value: Any) -> None:
        """Take over a value, if it is given."""
        if value is not None:
            self.assembly.put(path, value, self.document, origin)

    def put_nodes(self, origin: Path, selector: Any) -> None:
        """Take over which nodes are looked at; the Kubernetes descheduler writes it as text."""
        if isinstance(selector, str) and self.kind == "DeschedulerPolicy":
            try:
                selector = parse_selector(selector).model_dump(mode="json")
            except ValueError as error:
                self.assembly.problem(self.document, origin, str(error))
                return
        self.put(("descheduling", "nodeSelector"), origin, selector)

    def put_args(self, profile: dict[str, Any], at: Path) -> None:
        """Take over the arguments of plugins that there are here."""
        for index, config in _maps(profile.get("pluginConfig")):
            path = (*at, "pluginConfig", index)
            name = config.get("name")
            if not isinstance(name, str):
                continue
            if name in SECTIONS and not self.stays_listed(name, config.get("args")):
                self.args[name] = (*path, "args")
                _refuse_ours(
                    self.assembly,
                    self.document,
                    SECTIONS[name],
                    config.get("args"),
                    self.args[name],
                )
                self.put((SECTIONS[name],), (*path, "args"), config.get("args"))
            else:
                self.ignore(path, name)

    def stays_listed(self, name: str, args: Any) -> bool:
        """Whether arguments of a policy that is in force were listed when it was taken, and cannot be
        read."""
        model = _READ_LATER.get(name)
        if model is None or not self.accepted:
            return False
        try:
            validated(model, {} if args is None else args)
        except PolicyError:
            return True
        return name in self.args

    def put_placement(self, plugins: dict[str, Any], at: Path) -> None:
        """Take over which filters and scores are enabled."""
        for entry in unknown(plugins, at, frozenset((*self.known.filter, *self.known.score))):
            self.ignore(entry.path, entry.name)
        for point in plugins:
            distinguished = point in ("filter", "score", "multiPoint")
            if not distinguished and references(plugins, point, "disabled", at):
                self.ignore((*at, point, "disabled"))
        for point in ("filter", "score"):
            if point in plugins or "multiPoint" in plugins:
                upstreams = PluginChoice().resolved("koordinator")
                defaults = tuple(plugin.name for plugin in getattr(upstreams, point))
                known: tuple[str, ...] = getattr(self.known, point)
                entries = merged(plugins, point, at, defaults, known)
                origin = (*at, point if point in plugins else "multiPoint")
                self.put_plugins(point, origin, entries)

    def put_balance(self, plugins: dict[str, Any], at: Path) -> None:
        """Take over whether LowNodeLoad is enabled; its arguments alone do not enable it."""
        direct = self.put_evictor(plugins, at)
        for entry in unknown(plugins, at, frozenset(self.known.balance)):
            if entry.name not in _EVICTORS[self.kind] and entry.path != direct:
                self.ignore(entry.path, entry.name)
        for point in plugins:
            if point != "balance" and references(plugins, point, "disabled", at):
                self.ignore((*at, point, "disabled"))
        enabled = merged(plugins, "balance", at, (), self.known.balance)
        args = self.args.get("LowNodeLoad")
        if args is not None or enabled or references(plugins, "balance", "disabled", at):
            self.put_plugins("balance", (*at, "balance") if at else args or (), enabled)

    def put_evictor(self, plugins: dict[str, Any], at: Path) -> Path:
        """Take over that DefaultEvictor evicts in place of MigrationController; answers where it is
        said."""
        evictors = {each.name: each.path for each in references(plugins, "evict", "enabled", at)}
        if self.kind != "DeschedulerConfiguration" or "MigrationController" in evictors:
            return ()
        path = evictors.get("DefaultEvictor", ())
        args = self.args.get("MigrationController")
        if not path or (self.accepted and args is not None):
            return ()
        if args is not None:
            message = (
                "found arguments of MigrationController, while plugins.evict enables DefaultEvictor "
                "in its place; keep one of the two"
            )
            self.assembly.problem(self.document, args, message)
        else:
            self.put(("migration",), path, _EVICT_DIRECTLY)
        return path

    def put_plugins(self, point: str, origin: Path, entries: list[Reference]) -> None:
        """Give an extension point its list."""
        values = []
        for entry in entries:
            # Upstream takes a weight that is absent or 0 for 1.
            weighs = point == "score" and entry.weight not in (None, 0)
            values.append({"name": entry.name} | ({"weight": entry.weight} if weighs else {}))
        items = [entry.path for entry in entries]
        self.assembly.put(("plugins", point), values, self.document, origin, items)
