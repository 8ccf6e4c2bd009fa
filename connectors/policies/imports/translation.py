"""The policy that an import makes, the report about it, and rules of fields.

A rule says what happens to a field of a configuration. It is a function, or a table of the fields
inside. A field that a table does not name is an error, with the name that was probably meant.
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
    """One line of the report."""

    group: Group
    line: int
    name: str
    """Path of a field, or name of a plugin."""
    text: str


class Translation:
    """The policy so far, by the names of `Policy`, and what happened to each setting."""

    def __init__(self) -> None:
        self.compat: Compat = "loadstream"
        self.memory_eviction_mark: int | None = None
        """Percentage of a node's memory from which Koordinator's agent evicts pods."""
        self.values: dict[str, Any] = {}
        self.origins: dict[Path, tuple[DocumentNode, str]] = {}
        """Where the value of each policy field comes from, and a note about it, by path."""
        self.entries: list[ReportLine] = []
        self.problems: list[Problem] = []

    def put(self, path: tuple[str, ...], value: Any, origin: DocumentNode, note: str = "") -> None:
        """Give a field of the policy a value; another value for the field is an error."""
        section = self.values.setdefault(path[0], {}) if path[1:] else self.values
        earlier, _ = self.origins.setdefault(path, (origin, note))
        if section.setdefault(path[-1], value) != value:
            message = (
                f"found another value of {format_path(path)}, the first is in line {earlier.line}"
            )
            hint = "a cluster has one policy for all pods and nodes: import one of the two"
            self.problem(origin, f"{message}; {hint}")

    def report(self, group: Group, origin: DocumentNode, text: str, name: str = "") -> None:
        """Add a line to the report, once for each name and text."""
        name = name or origin.name
        if not any((each.name, each.text) == (name, text) for each in self.entries):
            self.entries.append(ReportLine(group, origin.line, name, text))

    def problem(self, node: DocumentNode, message: str) -> None:
        """Note what is wrong at a value of a configuration."""
        self.problems.append(Problem(node.name, message, node.line))

    def check(self, node: DocumentNode, kind: type[dict[str, Any]] | type[list[Any]]) -> bool:
        """Tell whether a value is a map or a list, as it should be; note that it is not."""
        if not isinstance(node.value, kind):
            allowed = "a map" if kind is dict else "a list"
            self.problem(node, f"found {describe(node.value)}; allowed is {allowed}")
        return isinstance(node.value, kind)

    def add_policy_problems(self, problems: Iterable[Problem]) -> None:
        """Note what is wrong with the policy, at the values that it came from."""
        places: dict[str, DocumentNode] = {}
        for path, (origin, _) in self.origins.items():
            value: Any = self.values
            for step in path:
                value = value[step]
            places |= {format_path((*path, *rest)): origin.child(*rest) for rest in _paths(value)}
        for problem in problems:
            text = problem.path
            while text and text not in places:
                text = text[: max(text.rfind("."), text.rfind("["), 0)]
            if text:
                self.problem(places[text], problem.message)
            else:
                self.problems.append(Problem(problem.path, problem.message))


def _paths(value: Any) -> Iterator[Path]:
    """Yield the paths of all values inside a value."""
    yield ()
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from ((key, *rest) for rest in _paths(child))


Rule = Callable[[Translation, DocumentNode], None] | Mapping[str, "Rule"]


def apply(result: Translation, node: DocumentNode, rule: Rule) -> None:
    """Apply the rule of a value; a value that is null counts as not given."""
    if node.value is None:
        return
    if callable(rule):
        rule(result, node)
    elif result.check(node, dict):
        for key, child in node.children():
            if key in rule:
                apply(result, child, rule[str(key)])
            else:
                result.problem(child, f"unknown field{nearest(str(key), rule)}")


def keep(result: Translation, node: DocumentNode) -> None:
    """Do nothing: the value is read with others, or means nothing."""


def take(
    *path: str, convert: Callable[[Any], Any] = lambda value: value
) -> Callable[[Translation, DocumentNode], None]:
    """Return the rule of a value that becomes a field of the policy."""

    def rule(result: Translation, node: DocumentNode) -> None:
        try:
            result.put(path, convert(node.value), node)
        except ValueError as error:
            result.problem(node, str(error))
        else:
            result.report("taken over", node, format_path(path))

    return rule


def say(group: Group, text: str) -> Callable[[Translation, DocumentNode], None]:
    """Return the rule of a value that only the report names."""
    return lambda result, node: result.report(group, node, text)


def apply_to_items(rule: Rule) -> Callable[[Translation, DocumentNode], None]:
    """Return the rule of a list whose items have this rule."""

    def apply_rule(result: Translation, node: DocumentNode) -> None:
        if result.check(node, list):
            for _, item in node.children():
                apply(result, item, rule)

    return apply_rule


#: Fields about the process of another system.
PROCESS = dict.fromkeys(
    (
        "clientConnection",
        "leaderElection",
        "enableProfiling",
        "enableContentionProfiling",
        "healthzBindAddress",
        "metricsBindAddress",
    ),
    say("handled elsewhere", "loadstream's processes have settings of their own: LOADSTREAM_*"),
)
#: Fields that say what a document is.
TYPE: dict[str, Rule] = {"apiVersion": keep, "kind": keep}
#: Fields that name sources of usage.
SOURCES = say("handled elsewhere", "sources of usage: loadstream kubernetes collect, or its agent")
