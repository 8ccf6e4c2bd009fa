"""One policy put together from several documents, each value with the place it came from."""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from schemas.policy.errors import Path, Problem, path_text
from schemas.policy.parts import NotApplied, inner_model
from schemas.policy.yamltext import YamlDocument

#: Sections that may be given piece by piece, by different documents.
_SHARED = ("plugins", "descheduling")


class Assembly:
    """The values of a policy, by the names of `Policy`, and where in the text each was written."""

    def __init__(self) -> None:
        self.raw: dict[str, Any] = {}
        self.problems: list[Problem] = []
        self._ignored: list[tuple[int, str]] = []
        self._origins: dict[Path, tuple[YamlDocument, Path]] = {}

    def problem(self, document: YamlDocument, path: Path, message: str) -> None:
        """Note what is wrong at a path of a document."""
        self.problems.append(Problem(path_text(path), message, document.line_of(path)))

    def take(self, document: YamlDocument) -> None:
        """Take in a document of loadstream's own shape."""
        for key, value in document.value.items():
            if key in _SHARED and isinstance(value, dict):
                # An empty section is still a place that errors may point to.
                self._origins.setdefault((key,), (document, (key,)))
                for name, part in value.items():
                    self.put((key, name), part, document, (key, name))
            elif key not in _SHARED or value is not None:
                self.put((key,), value, document, (key,))

    def put(
        self,
        path: tuple[str, ...],
        value: Any,
        document: YamlDocument,
        origin: Path,
        items: Iterable[Path] = (),
    ) -> None:
        """Give a field of the policy a value; a second value for it is a problem.

        `items` say where the entries of a list were written that does not stand in the document as
        such.
        """
        earlier = self._origins.get(path)
        if earlier is None and len(path) > 1:
            section = self.raw.get(path[0], {})
            # A section that was given as something else than a map holds no fields.
            earlier = None if isinstance(section, dict) else self._origins.get(path[:1])
        if earlier is not None:
            line = earlier[0].line_of(earlier[1])
            message = f"given a second time, also in line {line}; allowed is once"
            self.problem(document, origin, message)
            return
        self._origins[path] = (document, origin)
        for index, item in enumerate(items):
            self._origins[(*path, index)] = (document, item)
        holder = self.raw
        for step in path[:-1]:
            holder = holder.setdefault(step, {})
        holder[path[-1]] = value

    def fill(self, section: str, field: str, value: Any) -> None:
        """Give a field of a section a value, unless the text does."""
        given = self.raw.setdefault(section, {})
        if isinstance(given, dict):
            given.setdefault(field, value)

    def ignore(self, document: YamlDocument, path: Path, why: str = "") -> None:
        """List a path of a document as having no effect."""
        kind = document.value.get("kind")
        source = f"{kind}: " if isinstance(kind, str) else ""
        listed = f"{source}{path_text(path)}{f' ({why})' if why else ''}"
        self._ignored.append((document.line_of(path), listed))

    @property
    def not_applied(self) -> tuple[str, ...]:
        """What of the text has no effect, in the order of its lines."""
        return tuple(listed for _, listed in sorted(self._ignored, key=lambda each: each[0]))

    def ignore_marked(self, model: type[BaseModel]) -> None:
        """List the fields of the policy that `model` marks as having no effect."""
        for path in ignored_paths(model, self.raw):
            document, written = self._origin(path)
            if document is not None:
                self.ignore(document, written)

    def place(self, path: Path) -> tuple[str, int | None]:
        """Path, as its author wrote it, and line of a value of the policy."""
        document, written = self._origin(path)
        return path_text(written), document.line_of(written) if document is not None else None

    def _origin(self, path: Path) -> tuple[YamlDocument | None, Path]:
        for length in range(len(path), 0, -1):
            if path[:length] in self._origins:
                document, origin = self._origins[path[:length]]
                return document, (*origin, *path[length:])
        return None, path


def _is_marked(info: FieldInfo) -> bool:
    return any(isinstance(mark, NotApplied) for mark in info.metadata)


def ignored_paths(model: type[BaseModel], data: Any, at: Path = ()) -> Iterator[Path]:
    """Paths of the fields in `data` that `model` marks as having no effect."""
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from ignored_paths(model, item, (*at, index))
    if not isinstance(data, dict):
        return
    for name, info in model.model_fields.items():
        key = info.alias or name
        if data.get(key) is None:
            continue
        if _is_marked(info):
            yield (*at, key)
        elif inner := inner_model(info.annotation):
            yield from ignored_paths(inner, data[key], (*at, key))
