"""The policy that an import makes, the report about it, and rules of fields.

A rule says what happens to a field of a configuration. It is a function, or a table of the fields
inside. A field that a table does not name is an error, with the name that was probably meant.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from connectors.policy.imports.documents import Source
from schemas.policy import Compat, Problem
from schemas.policy.errors import Path, path_text
from schemas.policy.wording import describe, nearest

Group = Literal["taken over", "handled elsewhere", "lost"]
GROUPS: tuple[Group, ...] = ("taken over", "handled elsewhere", "lost")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the report."""

    group: Group
    line: int
    name: str
    """Path of a field, or name of a plugin."""
    text: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value of the policy was written."""

    source: Source
    path: Path
    note: str = ""
    """What a reader of the policy should know of the value."""


class Translation:
    """The policy so far, by the names of `Policy`, and what happened to each setting."""

    def __init__(self) -> None:
        self.compat: Compat = "loadstream"
        self.values: dict[str, Any] = {}
        self.origins: dict[Path, Origin] = {}
        """Of each field of a section, and of each field without a section."""
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []

    def put(self, path: tuple[str, ...], value: Any, origin: Origin) -> None:
        """Give a field of the policy a value; another value for the field is an error."""
        section = self.values.setdefault(path[0], {}) if path[1:] else self.values
        earlier = self.origins.setdefault(path, origin)
        if section.setdefault(path[-1], value) != value:
            line = earlier.source.line_of(earlier.path)
            message = f"found another value of {path_text(path)}, the first is in line {line}"
            hint = "a cluster has one policy for all pods and nodes: import one of the two"
            self.problem(origin.source, origin.path, f"{message}; {hint}")

    def add_policy_problems(self, problems: Iterable[Problem]) -> None:
        """Note what is wrong with the policy, at the values that it came from."""
        places: dict[str, Origin] = {}
        for path, origin in self.origins.items():
            value: Any = self.values
            for step in path:
                value = value[step]
            for rest in _paths(value):
                at = Origin(origin.source, (*origin.path, *rest))
                places[path_text((*path, *rest))] = at
        for problem in problems:
            text = problem.path
            while text and text not in places:
                text = text[: max(text.rfind("."), text.rfind("["), 0)]
            if text:
                self.problem(places[text].source, places[text].path, problem.message)
            else:
                self.problems.append(Problem(problem.path, problem.message))

    def report(self, group: Group, name: str, text: str, source: Source, path: Path) -> None:
        """Add a line to the report, once for each name and text."""
        if not any((each.name, each.text) == (name, text) for each in self.entries):
            self.entries.append(Entry(group, source.line_of(path), name, text))

    def problem(self, source: Source, path: Path, message: str) -> None:
        """Note what is wrong at a value of a configuration."""
        self.problems.append(Problem(path_text(path), message, source.line_of(path)))


def _paths(value: Any) -> Iterator[Path]:
    """Yield the paths of all values inside a value."""
    yield ()
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from ((key, *rest) for rest in _paths(child))


Rule = Callable[[Translation, Source, Path, Any], None] | Mapping[str, "Rule"]


def apply(translation: Translation, source: Source, path: Path, value: Any, rule: Rule) -> None:
    """Apply the rule of a value; a value that is null counts as not given."""
    if value is None:
        return
    if callable(rule):
        rule(translation, source, path, value)
    elif not isinstance(value, dict):
        translation.problem(source, path, f"found {describe(value)}; allowed is a map")
    else:
        for key, child in value.items():
            if key in rule:
                apply(translation, source, (*path, key), child, rule[key])
            else:
                message = f"unknown field{nearest(key, rule)}"
                translation.problem(source, (*path, key), message)


def as_map(value: Any) -> dict[str, Any]:
    """Return a map as it is, and an empty one for anything else, which is an error of its own."""
    return value if isinstance(value, dict) else {}


def keep(translation: Translation, source: Source, path: Path, value: Any) -> None:
    """Do nothing: the value is read with others, or means nothing."""


def take(
    *path: str, convert: Callable[[Any], Any] = lambda value: value, note: str = ""
) -> Callable[[Translation, Source, Path, Any], None]:
    """Return the rule of a value that becomes a field of the policy."""

    def rule(translation: Translation, source: Source, at: Path, value: Any) -> None:
        try:
            translation.put(path, convert(value), Origin(source, at, note))
        except ValueError as error:
            translation.problem(source, at, str(error))
        else:
            translation.report("taken over", path_text(at), path_text(path), source, at)

    return rule


def say(group: Group, text: str) -> Callable[[Translation, Source, Path, Any], None]:
    """Return the rule of a value that only the report names."""

    def rule(translation: Translation, source: Source, path: Path, value: Any) -> None:
        translation.report(group, path_text(path), text, source, path)

    return rule


def each(rule: Rule) -> Callable[[Translation, Source, Path, Any], None]:
    """Return the rule of a list, by the rule of its items."""

    def apply_to_items(translation: Translation, source: Source, path: Path, value: Any) -> None:
        for index, item in items(translation, source, path, value):
            apply(translation, source, (*path, index), item, rule)

    return apply_to_items


def items(
    translation: Translation, source: Source, path: Path, value: Any
) -> Iterable[tuple[int, Any]]:
    """Return the items of a list with their positions; anything else is an error."""
    if isinstance(value, list):
        return enumerate(value)
    if value is not None:
        translation.problem(source, path, f"found {describe(value)}; allowed is a list")
    return ()


def seconds(value: Any) -> str:
    """Return a number of seconds as a duration. Raises ValueError."""
    if type(value) is not int or value < 1:
        raise ValueError(f"found {describe(value)}; allowed is a number of seconds above 0")
    return f"{value}s"


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
