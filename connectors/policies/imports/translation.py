"""The result of an import (a policy and a report), and the rules that fill it.

A rule handles a field of a configuration. It is a function, or a table with rules for the inner fields.
A field without a rule is an error. The error suggests a similar name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from connectors.policies.imports.documents import DocumentNode
from schemas.policy import Compat, Problem
from schemas.policy.errors import Path, format_path
from schemas.policy.wording import describe, nearest

Group = Literal["taken over", "handled elsewhere", "lost"]
GROUPS: tuple[Group, ...] = ("taken over", "handled elsewhere", "lost")


@dataclass(frozen=True, slots=True)
class ReportLine:
    group: Group
    line: int
    name: str
    """Path of a field, or name of a plugin."""
    text: str


class Translation:
    """The values of the policy so far, under the names of `Policy`, and a report on each setting."""

    def __init__(self) -> None:
        self.compat: Compat = "loadstream"
        self.memory_eviction_percent: int | None = None
        """Percentage of a node's memory from which Koordinator's agent evicts pods."""
        self.values: dict[str, Any] = {}
        self.origins: dict[Path, tuple[DocumentNode, str]] = {}
        """Source and note of each policy field, by path."""
        self.entries: list[ReportLine] = []
        self.problems: list[Problem] = []

    def set_value(
        self, path: tuple[str, ...], value: Any, origin: DocumentNode, note: str = ""
    ) -> None:
        """Set a field of the policy; setting another value later is an error."""
        section = self.values.setdefault(path[0], {}) if path[1:] else self.values
        earlier, _ = self.origins.setdefault(path, (origin, note))
        if section.setdefault(path[-1], value) != value:
            message = (
                f"found another value of {format_path(path)}; the first is in line {earlier.line}"
            )
            hint = "a cluster has one policy for all pods and nodes: import only one of the two"
            self.add_problem(origin, f"{message}; {hint}")

    def report(self, group: Group, origin: DocumentNode, text: str, name: str = "") -> None:
        """Add a line to the report, once for each name and text."""
        name = name or origin.name
        if not any((entry.name, entry.text) == (name, text) for entry in self.entries):
            self.entries.append(ReportLine(group, origin.line, name, text))

    def add_problem(self, node: DocumentNode, message: str) -> None:
        """Add an error about a value of a configuration."""
        self.problems.append(Problem(node.name, message, node.line))

    def is_kind(self, node: DocumentNode, kind: type[dict[str, Any]] | type[list[Any]]) -> bool:
        """Tell whether a value has the required kind, a map or a list; add an error if it does not."""
        if not isinstance(node.value, kind):
            allowed = "a map" if kind is dict else "a list"
            self.add_problem(node, f"found {describe(node.value)}; allowed is {allowed}")
        return isinstance(node.value, kind)

    def add_policy_problems(self, problems: Iterable[Problem]) -> None:
        """Add errors of the policy, with the line of the configuration that caused each error."""
        nodes: dict[str, DocumentNode] = {}
        for path, (origin, _) in self.origins.items():
            value: Any = self.values
            for step in path:
                value = value[step]
            nodes |= {format_path((*path, *steps)): origin.child(*steps) for steps in _paths(value)}
        for problem in problems:
            text = problem.path
            while text and text not in nodes:
                text = text[: max(text.rfind("."), text.rfind("["), 0)]
            if text:
                self.add_problem(nodes[text], problem.message)
            else:
                self.problems.append(Problem(problem.path, problem.message))


def _paths(value: Any) -> Iterator[Path]:
    """Yield the paths of all values inside a value."""
    yield ()
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from ((key, *steps) for steps in _paths(child))


Rule = Callable[[Translation, DocumentNode], None] | Mapping[str, "Rule"]


def apply(result: Translation, node: DocumentNode, rule: Rule) -> None:
    """Apply the rule of a value, unless the value is null."""
    if node.value is None:
        return
    if callable(rule):
        rule(result, node)
    elif result.is_kind(node, dict):
        for key, child in node.children():
            if key in rule:
                apply(result, child, rule[str(key)])
            else:
                result.add_problem(child, f"unknown field{nearest(str(key), rule)}")


def skip(result: Translation, node: DocumentNode) -> None:
    """Do nothing: another rule reads the value, or it has no effect."""


def copy_to(
    *path: str, convert: Callable[[Any], Any] = lambda value: value
) -> Callable[[Translation, DocumentNode], None]:
    """Return a rule that copies a value to a field of the policy."""

    def rule(result: Translation, node: DocumentNode) -> None:
        try:
            result.set_value(path, convert(node.value), node)
        except ValueError as error:
            result.add_problem(node, str(error))
        else:
            result.report("taken over", node, format_path(path))

    return rule


def elsewhere(text: str) -> Callable[[Translation, DocumentNode], None]:
    """Return a rule that only reports a field as handled elsewhere."""
    return lambda result, node: result.report("handled elsewhere", node, text)


def lost(text: str) -> Callable[[Translation, DocumentNode], None]:
    """Return a rule that only reports a field as lost."""
    return lambda result, node: result.report("lost", node, text)


def apply_to_items(rule: Rule) -> Callable[[Translation, DocumentNode], None]:
    """Return a rule that applies another rule to each item of a list."""

    def apply_rule(result: Translation, node: DocumentNode) -> None:
        if result.is_kind(node, list):
            for _, item in node.children():
                apply(result, item, rule)

    return apply_rule


#: Fields about the process of the other system.
PROCESS = dict.fromkeys(
    (
        "clientConnection",
        "leaderElection",
        "enableProfiling",
        "enableContentionProfiling",
        "healthzBindAddress",
        "metricsBindAddress",
    ),
    elsewhere("processes of loadstream are configured by LOADSTREAM_* variables"),
)
#: Fields that identify a document.
TYPE: dict[str, Rule] = {"apiVersion": skip, "kind": skip}
#: Fields that name sources of usage.
SOURCES = elsewhere("sources of usage: loadstream kubernetes collect, or its agent")
