"""Finds the configurations in a file, wherever they are: at the top of a document, in a list, in
Helm values, or as text in a ConfigMap.

Each value of a configuration has its line in the file. If the configuration is text under a key,
lines are exact for a block (`key: |`). In other text every value has the line of the key.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from schemas.policy import PolicyError, Problem
from schemas.policy.errors import Path, format_path
from schemas.policy.yamltext import YamlDocument, read_documents

#: Kinds of configurations, and the prefix of their `apiVersion`.
KINDS = {
    "KubeSchedulerConfiguration": "kubescheduler.config.k8s.io/v1",
    "DeschedulerConfiguration": "descheduler/v1alpha2",
    "DeschedulerPolicy": "descheduler/v1alpha2",
    "KubeDescheduler": "operator.openshift.io/v1",
}
#: Keys of Koordinator's ConfigMap slo-controller-config, each with JSON.
COLOCATION, THRESHOLDS = "colocation-config", "resource-threshold-config"
SLO_KEYS = (
    COLOCATION,
    THRESHOLDS,
    "resource-qos-config",
    "cpu-burst-config",
    "system-config",
    "host-application-config",
)
#: Helm values of the descheduler's chart: the key of its policy, and the kind of the other values.
HELM_POLICY = "deschedulerPolicy"
HELM_VALUES = "Helm values"
#: Kind of a configuration without `kind`, by a plugin that its profiles name.
_KIND_BY_PLUGIN = {
    "LowNodeLoad": "DeschedulerConfiguration",
    "MigrationController": "DeschedulerConfiguration",
    "LoadAwareScheduling": "KubeSchedulerConfiguration",
    "LowNodeUtilization": "DeschedulerPolicy",
}
_BLOCK = re.compile(r":\s*[|>][-+0-9]*\s*(#.*)?$")
#: A line with one field whose value is a number or a word.
_SCALAR_LINE = re.compile(r"""[\s-]*[\w.-]+:\s+("[\w.:-]*"|[\w.:-]*[\w.])\s*""")
_DUPLICATE = re.compile(r"found a second time, also in line (\d+)")


@dataclass(frozen=True, slots=True)
class DocumentNode:
    """A value of a configuration, and its position in the file."""

    value: Any
    document: YamlDocument
    text: "_Text"
    root: Path = ()
    """Path of the configuration in its document."""
    path: Path = ()
    """Path of the value in the configuration."""

    @property
    def name(self) -> str:
        return format_path(self.path)

    @property
    def line(self) -> int:
        return self.text.line_in_file(self.document.line_of((*self.root, *self.path)))

    def child(self, *steps: str | int) -> "DocumentNode":
        """Return a value inside this value; None if it is not set."""
        node = self
        for step in steps:
            value = None
            if isinstance(node.value, dict):
                value = node.value.get(step)
            elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
                value = node.value[step]
            node = replace(node, value=value, path=(*node.path, step))
        return node

    def children(self) -> Iterator[tuple[str | int, "DocumentNode"]]:
        """Yield the fields of a map, or the items of a list, that are not null."""
        value = self.value
        keys = (
            value
            if isinstance(value, dict)
            else range(len(value) if isinstance(value, list) else 0)
        )
        for key in keys:
            if (child := self.child(key)).value is not None:
                yield key, child


@dataclass(frozen=True, slots=True)
class Configuration:
    """One configuration of a file."""

    kind: str
    node: DocumentNode


@dataclass(frozen=True, slots=True)
class _Text:
    """Text of one or more documents, and its position in the file."""

    lines: list[str]
    before: int = 0
    """Number of lines before the text; if it is not a block, the line of its key."""
    is_block: bool = True

    def line_in_file(self, line: int) -> int:
        return self.before + line if self.is_block else self.before

    def read(self) -> tuple[list[YamlDocument], list[Problem]]:
        for number, line in enumerate(self.lines, 1):
            if "{{" in line and not line.lstrip().startswith("#"):
                message = (
                    "found a template that is not rendered; render it first, for example with "
                    "`helm template`"
                )
                return [], [Problem("", message, self.line_in_file(number))]
        text = "\n".join(self.lines)
        # JSON has tabs only between its tokens, where YAML does not allow them.
        text = text.replace("\t", " ") if text.lstrip().startswith("{") else text
        try:
            documents, problems = read_documents(text)
        except PolicyError as error:
            documents, problems = [], list(error.problems)
        return documents, [
            Problem(problem.path, problem.message, self.line_in_file(problem.line or 1))
            for problem in problems
            if not self._is_repeated_line(problem)
        ]

    def _is_repeated_line(self, problem: Problem) -> bool:
        """Tell whether a line with a duplicate key repeats an earlier line, which does no harm."""
        duplicate = _DUPLICATE.match(problem.message)
        if duplicate is None or problem.line is None or problem.line == int(duplicate[1]):
            return False
        line = self.lines[problem.line - 1]
        return line == self.lines[int(duplicate[1]) - 1] and bool(_SCALAR_LINE.fullmatch(line))

    def nested_text(self, key_line: int, text: str) -> "_Text":
        """Return the text under a key of this text."""
        is_block = self.is_block and bool(_BLOCK.search(self.lines[key_line - 1]))
        return _Text(text.split("\n"), self.line_in_file(key_line), is_block)


def find_configurations(text: str) -> tuple[list[Configuration], list[Problem]]:
    """Return the configurations in a text, in order, and the problems of the text."""
    sources: list[Configuration] = []
    problems: list[Problem] = []
    for part in _split(text):
        _find_in_text(part, sources, problems)
    if not sources and not problems:
        message = f"found no configuration to import; expected one of {', '.join(KINDS)}"
        problems.append(Problem("", f"{message}, or {COLOCATION} of a ConfigMap"))
    return sources, problems


def _split(text: str) -> Iterator[_Text]:
    """Yield each document separately, so that an invalid document does not affect the others."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    starts = [0, *(index + 1 for index, line in enumerate(lines) if re.match(r"---(\s|$)", line))]
    for start, end in zip(starts, [*(start - 1 for start in starts[1:]), len(lines)], strict=True):
        yield _Text(lines[start:end], start)


def _find_in_text(text: _Text, sources: list[Configuration], problems: list[Problem]) -> None:
    documents, text_problems = text.read()
    problems += text_problems
    for document in documents:
        for source in _find(DocumentNode(document.value, document, text)):
            if isinstance(source, _Text):
                _find_in_text(source, sources, problems)
            else:
                sources.append(source)


def _find(node: DocumentNode) -> Iterator[Configuration | _Text]:
    """Yield the configurations in a value, and texts that may contain configurations."""
    value = node.value
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind is None and isinstance(value, dict) and "profiles" in value:
        kind = next((_KIND_BY_PLUGIN[name] for name in _KIND_BY_PLUGIN if name in str(value)), None)
    if isinstance(kind, str) and kind in KINDS:
        yield Configuration(kind, _as_root(node))
        return
    for key, child in node.children():
        if key == HELM_POLICY and isinstance(child.value, dict):
            yield Configuration("DeschedulerPolicy", _as_root(child))
            yield Configuration(HELM_VALUES, _as_root(node))
        elif key in SLO_KEYS and isinstance(child.value, str):
            yield from _find_slo(str(key), child)
        elif isinstance(child.value, str):
            if any(name in child.value for name in (*KINDS, HELM_POLICY)):
                yield child.text.nested_text(child.document.line_of(child.path), child.value)
        # kubectl keeps a copy of the whole object in metadata.annotations.
        elif key not in ("metadata", "status"):
            yield from _find(child)


def _as_root(node: DocumentNode) -> DocumentNode:
    return replace(node, root=node.path, path=())


def _find_slo(key: str, node: DocumentNode) -> Iterator[Configuration | _Text]:
    part = node.text.nested_text(node.document.line_of(node.path), node.value)
    documents, problems = part.read()
    if problems:
        yield part  # is read once more, for its problems
    elif documents:
        yield Configuration(key, DocumentNode(documents[0].value, documents[0], part))
