"""Read YAML as plain values with their line numbers.

Scalars follow the core schema of YAML 1.2: only true and false are booleans. Other readers convert
`on`, `yes`, `0o17` and `012`; here they stay text, and are refused where text is not allowed. Merge
keys, tags and keys that are not text are refused. Each use of an alias counts as new values, so
aliases cannot exceed the limits below.
"""

import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from schemas.messages.policies import DOCUMENT_BYTES_MAX
from schemas.policy.errors import Path, PolicyError, Problem, format_path
from schemas.policy.wording import describe

#: Deepest nesting of maps and lists.
DEPTH_MAX = 32
#: Most values in a text, with expanded aliases: reading takes about 20 microseconds per value.
VALUES_MAX = 6_000
#: Most documents in a text.
DOCUMENTS_MAX = 16

_INTEGER = re.compile(r"^[-+]?(0|[1-9][0-9]{0,39})$", re.ASCII)
_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$", re.ASCII)
_LEADING_ZERO = re.compile(r"^[-+]?0[0-9]", re.ASCII)
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_PLAIN = "plain"
"""Tag of scalars without a tag and without quotes."""
_TAGS = (_PLAIN, *(f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map")))


def resolve_scalar(text: str) -> Any:
    """Return the value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if len(text) <= 64 and _FLOAT.fullmatch(text) and not _LEADING_ZERO.match(text):
        return float(text)
    return text


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The value of a document, and the line of every value in it."""

    value: Any
    line: int
    lines: dict[Path, int]

    def line_of(self, path: Path) -> int:
        """Return the line of the value at `path`, or of the nearest enclosing value."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, self.line)


class _Loader(yaml.SafeLoader):
    """Reads documents and records lines and problems."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.problems: list[Problem] = []
        self._depth, self._nodes, self._values = 0, 0, 0
        self._lines: dict[Path, int] = {}

    def read_document(self, node: yaml.Node) -> YamlDocument:
        """Return the document. Raises `PolicyError` if a limit is exceeded."""
        self._lines = {}
        value = self._construct(node, (), _line(node))
        return YamlDocument(value, _line(node), self._lines)

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return _PLAIN
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        # PyYAML composes nested nodes recursively and slowly, so the limits are checked here.
        self._depth += 1
        self._nodes += 1
        self._check_limits(self.line + 1, self._depth, self._nodes)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _construct(self, node: yaml.Node, path: Path, line: int) -> Any:
        # An alias repeats a node that is composed once, so the limits are checked again.
        self._values += 1
        self._check_limits(line, len(path) + 1, self._values)
        self._lines[path] = line
        if node.tag not in _TAGS:
            self._note(path, line, f"found the tag {node.tag}; tags are not allowed")
        if isinstance(node, yaml.ScalarNode):
            return _read_scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [
                self._construct(item, (*path, index), _line(item))
                for index, item in enumerate(node.value)
            ]
        value: dict[str, Any] = {}
        for key_node, value_node in node.value:
            # The line of a field is that of its name, even if the value begins on a later line.
            line = _line(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self._note(path, line, "found a map or a list as a key; allowed is text")
                continue
            key = _read_scalar(key_node)
            at = (*path, key_node.value)
            if not isinstance(key, str):
                message = f"found {describe(key)}; allowed is text: put it in quotes"
                self._note(at, line, message)
            elif key == "<<" and key_node.tag == _PLAIN:
                self._note(at, line, "merge keys are not allowed; repeat the fields")
            elif key in value:
                message = f"found a second time, also in line {self._lines[at]}; allowed is once"
                self._note(at, line, message)
            else:
                value[key] = self._construct(value_node, at, line)
        return value

    def _check_limits(self, line: int, depth: int, values: int) -> None:
        if values > VALUES_MAX:
            _stop(line, f"found more than {VALUES_MAX} values; expected at most that many")
        if depth > DEPTH_MAX:
            _stop(line, f"found more than {DEPTH_MAX} levels; expected at most that many")

    def _note(self, path: Path, line: int, message: str) -> None:
        self.problems.append(Problem(format_path(path), message, line))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _read_scalar(node: yaml.ScalarNode) -> Any:
    return resolve_scalar(node.value) if node.tag == _PLAIN else node.value


def _stop(line: int, message: str) -> NoReturn:
    raise PolicyError([Problem("", message, line)])


def read_documents(text: str | bytes) -> tuple[list[YamlDocument], list[Problem]]:
    """Return the documents of a text, and its problems as YAML.

    After problems such as a duplicate key, reading continues in order to find further problems. Raises
    `PolicyError` if reading cannot continue.
    """
    text = _decode(text)
    documents: list[YamlDocument] = []
    try:
        loader = _Loader(text)
        while loader.check_node() and (node := loader.get_node()) is not None:
            documents.append(loader.read_document(node))
            if len(documents) > DOCUMENTS_MAX:
                line = documents[-1].line
                _stop(
                    line, f"found more than {DOCUMENTS_MAX} documents; expected at most that many"
                )
    except PolicyError:
        raise
    except yaml.YAMLError as error:
        raise PolicyError([_syntax_problem(error, text)]) from None
    except Exception as error:
        # PyYAML raises other errors, too, for example for `"\UFFFFFFFF"`.
        message = f"not readable as YAML: {type(error).__name__}: {error}"
        raise PolicyError([Problem("", message)]) from error
    return documents, loader.problems


def _decode(text: str | bytes) -> str:
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > DOCUMENT_BYTES_MAX:
        message = f"found more than {DOCUMENT_BYTES_MAX} bytes; expected at most that many"
        raise PolicyError([Problem("", message)])
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        message = (
            f"found the byte 0x{text[error.start]:02x}, which is not UTF-8; expected UTF-8 text"
        )
        raise PolicyError([Problem("", message, line)]) from None


def _syntax_problem(error: yaml.YAMLError, text: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark is not None else None
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        message = f"found the character U+{int(error.character):04X}, which YAML does not allow"
        return Problem("", message, line)
    problem = getattr(error, "problem", None) or str(error)
    where = getattr(error, "context", None)
    tab = "'\\t'" in problem
    hint = "; indent with spaces, not tabs" if tab else ""
    text = f"{where}, {problem}" if where else problem
    return Problem("", f"not readable as YAML: {text}{hint}", line)
