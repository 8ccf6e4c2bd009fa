"""YAML text to plain values that know their lines.

Scalars follow the core schema of YAML 1.2: only true and false are truth values, so `on`, `yes`,
`0o17` and `012`, which other readers turn into something else, stay text and are refused where text
is not allowed. Each limit below is reported as a problem. Anchors may be used; a value counts once
for each use, so a chain of aliases cannot grow beyond the limit. Merge keys, tags and keys that are
not text are refused.

The events of the parser are put together here, without recursion: neither depth nor size of a
hostile text can exhaust the interpreter.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentEndEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from schemas.policies import DOCUMENT_BYTES_MAX
from schemas.policy.errors import Path, PolicyError, Problem, path_text
from schemas.policy.wording import describe

#: Deepest nesting of maps and lists.
DEPTH_MAX = 32
#: Longest text that a new policy may have: reading takes about a millisecond a kilobyte.
TEXT_BYTES_MAX = 131_072
#: Most values in it, aliases counted as what they stand for: reading takes about 20 microseconds
#: each.
VALUES_MAX = 6_000
#: The same for policies that are in force already: what was accepted once stays readable.
ACCEPTED_BYTES_MAX, ACCEPTED_VALUES_MAX = DOCUMENT_BYTES_MAX, 20_000
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
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")


def resolve(text: str) -> Any:
    """What a scalar without quotes means."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if len(text) <= 64 and _FLOAT.fullmatch(text) and not _LEADING_ZERO.match(text):
        return float(text)
    return text


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One document: its value, and the line of every value in it."""

    value: Any
    line: int
    lines: dict[Path, int]

    def line_of(self, path: Path) -> int:
        """Line of the value at `path`, or of the nearest one around it that is there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, self.line)


@dataclass(slots=True)
class _Open:
    """A map or list that has begun."""

    value: Any
    path: Path
    values_before: int
    anchor: str | None
    keys: dict[str, int] = field(default_factory=dict)
    """Lines of the keys so far."""
    key: str | None = None
    """The key whose value comes next."""
    awaits_key: bool = False
    drops: bool = False
    """The key that comes next is none, so its value goes nowhere."""


class _Stop(Exception):
    """Reading cannot go on; the problem has been noted."""


class _Reader:
    """Puts the events of one text together."""

    def __init__(self, values_max: int) -> None:
        self.documents: list[YamlDocument] = []
        self.problems: list[Problem] = []
        self._values, self._values_max = 0, values_max
        self._start()

    def _start(self) -> None:
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._lines: dict[Path, int] = {}
        self._root: Any = None

    def _problem(self, path: Path, line: int, message: str) -> None:
        self.problems.append(Problem(path_text(path), message, line))

    def _stop(self, line: int, message: str) -> None:
        self._problem((), line, message)
        raise _Stop

    def take(self, event: Event) -> None:
        """Take in the next event."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._begin(event, line)
        elif isinstance(event, CollectionEndEvent):
            opened = self._stack.pop()
            if opened.anchor is not None:
                self._anchors[opened.anchor] = (opened.value, self._values - opened.values_before)
        elif isinstance(event, AliasEvent):
            self._alias(event, line)
        elif isinstance(event, DocumentEndEvent):
            if len(self.documents) == DOCUMENTS_MAX:
                self._stop(line, f"found more than {DOCUMENTS_MAX} documents; allowed are so many")
            first = self._lines.get((), line)
            self.documents.append(YamlDocument(self._root, first, self._lines))
            self._start()

    def _count(self, values: int, line: int) -> None:
        self._values += values
        if self._values > self._values_max:
            self._stop(line, f"found more than {self._values_max} values; allowed are so many")

    def _scalar(self, event: ScalarEvent, line: int) -> None:
        self._count(1, line)
        plain = event.implicit[0] and event.tag is None
        value = resolve(event.value) if plain else event.value
        if event.tag is not None and event.tag not in _TEXT_TAGS:
            self._problem(self._path(), line, f"found the tag {event.tag}; tags are not allowed")
        top = self._stack[-1] if self._stack else None
        if top is not None and top.awaits_key:
            self._take_key(top, value, event, line)
            return
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        self._add(value, line)

    def _take_key(self, top: _Open, value: Any, event: ScalarEvent, line: int) -> None:
        key = event.value
        if not isinstance(value, str):
            message = f"found {describe(value)}; allowed is text: put it in quotes"
            self._problem((*top.path, key), line, message)
            top.drops = True
        elif key == "<<" and event.implicit[0]:
            self._problem((*top.path, key), line, "merge keys are not allowed; repeat the fields")
            top.drops = True
        elif key in top.keys:
            message = f"found a second time, also in line {top.keys[key]}; allowed is once"
            self._problem((*top.path, key), line, message)
        top.keys[key] = line
        top.key, top.awaits_key = key, False

    def _begin(self, event: MappingStartEvent | SequenceStartEvent, line: int) -> None:
        self._count(1, line)
        is_map = isinstance(event, MappingStartEvent)
        if len(self._stack) == DEPTH_MAX:
            self._stop(line, f"found more than {DEPTH_MAX} levels; allowed are so many")
        if self._stack and self._stack[-1].awaits_key:
            self._stop(line, "found a map or a list as a key; allowed is text")
        if event.tag is not None and not event.implicit:
            self._problem(self._path(), line, f"found the tag {event.tag}; tags are not allowed")
        value: Any = {} if is_map else []
        path = self._path()
        self._add(value, line)
        self._stack.append(_Open(value, path, self._values - 1, event.anchor, awaits_key=is_map))

    def _alias(self, event: AliasEvent, line: int) -> None:
        known = self._anchors.get(event.anchor or "")
        if known is None or (self._stack and self._stack[-1].awaits_key):
            self._stop(
                line, f"found the alias *{event.anchor} where none is allowed or before its anchor"
            )
        else:
            self._count(known[1], line)
            self._add(known[0], line)

    def _path(self) -> Path:
        """Path of the value that comes next."""
        if not self._stack:
            return ()
        top = self._stack[-1]
        if isinstance(top.value, list):
            return (*top.path, len(top.value))
        return (*top.path, top.key) if top.key is not None else top.path

    def _add(self, value: Any, line: int) -> None:
        """Put a value where it belongs."""
        path = self._path()
        top = self._stack[-1] if self._stack else None
        # A field's place is its name, also where its value begins on a later line.
        named = top is not None and top.key is not None
        self._lines[path] = top.keys[top.key] if top and named and top.key else line
        if top is None:
            self._root = value
        elif isinstance(top.value, list):
            top.value.append(value)
        elif top.key is not None:
            if not top.drops:
                top.value[top.key] = value
            top.key, top.awaits_key, top.drops = None, True, False


def read_documents(
    text: str | bytes, *, accepted: bool = False
) -> tuple[list[YamlDocument], list[Problem]]:
    """The documents of a text, and what is wrong with it as YAML; `accepted` ones are in force
    already.

    Problems that reading can get over, such as a duplicate key, leave the documents usable for
    finding further ones. Raises `PolicyError` where it cannot go on; its last problem says why.
    """
    text = _decoded(text, ACCEPTED_BYTES_MAX if accepted else TEXT_BYTES_MAX)
    reader = _Reader(ACCEPTED_VALUES_MAX if accepted else VALUES_MAX)
    try:
        for event in _events(text):
            reader.take(event)
    except _Stop:
        raise PolicyError(reader.problems) from None
    except yaml.YAMLError as error:
        raise PolicyError([*reader.problems, _syntax_problem(error, text)]) from None
    return reader.documents, reader.problems


def _events(text: str) -> Iterator[Event]:
    """The parser's events. PyYAML lets other errors out as well, for example of `"\\UFFFFFFFF"`."""
    events = iter(yaml.parse(text, Loader=yaml.SafeLoader))
    while True:
        try:
            event = next(events)
        except StopIteration:
            return
        except yaml.YAMLError:
            raise
        except Exception as error:
            raise yaml.YAMLError(f"{type(error).__name__}: {error}") from error
        yield event


def _decoded(text: str | bytes, bytes_max: int) -> str:
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > bytes_max:
        message = f"found more than {bytes_max} bytes; allowed are so many"
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
    what = getattr(error, "problem", None) or str(error)
    where = getattr(error, "context", None)
    tab = "'\\t'" in what
    hint = "; indent with spaces, not tabs" if tab else ""
    return Problem("", f"not readable as YAML: {f'{where}, ' if where else ''}{what}{hint}", line)
