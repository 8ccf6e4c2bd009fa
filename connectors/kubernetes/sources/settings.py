"""Settings of usage sources, and the file that lists the sources of a cluster.

    sources:
      - source: kubelet_resource      # the first source that measures a node reports it
        interval: 10s
      - source: prometheus            # adds missing resources, and replaces the first if it fails
        url: http://prometheus.monitoring:9090
        nodes: {nvidia.com/gpu: "sum by (instance) (...)"}

Like a policy, the file is checked strictly: all problems are reported at once, each with its line and
path, the value found and the values allowed. A source may be listed several times with different names.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from schemas.policy.durations import PositiveDuration
from schemas.policy.errors import Path, PolicyError, Problem, format_path, not_allowed
from schemas.policy.parts import Conflict, Name, PolicyPart, get_alias
from schemas.policy.validation import build_model
from schemas.policy.wording import describe, nearest
from schemas.policy.yamltext import YamlDocument, read_documents

#: Most sources of one cluster.
SOURCES_MAX = 16
#: The default list.
DEFAULT_TEXT = "sources:\n  - source: kubelet_resource\n"


def _interval(value: int) -> int:
    if not 100 <= value <= 3_600_000:
        raise not_allowed("a duration from 100ms to 1h")
    return value


Interval = Annotated[PositiveDuration, AfterValidator(_interval)]


class SourceSettings(PolicyPart):
    """Settings of every source."""

    source: str
    """Name of the source."""
    name: Name | None = None
    """Name in metrics and messages; required for two sources of one kind. None: as `source`."""
    interval_ms: Interval = Field(10_000, alias="interval")
    """Time between two measurements of a node, 100ms to 1h."""

    def find_ineffective(
        self, names: Iterable[str], message: str, other_field: str
    ) -> Iterator[Conflict]:
        """Yield the fields in `names` that were set, but have no effect because of `other_field`."""
        for name in names:
            if name in self.model_fields_set:
                yield Conflict((get_alias(type(self), name),), message, (other_field,))

    @property
    def label(self) -> str:
        return self.name or self.source

    @property
    def can_report_nodes(self) -> bool:
        """Whether this source measures CPU and memory of nodes; others only add to samples."""
        return True

    @property
    def fresh_ms(self) -> int:
        """How long this source may be silent about a node before the next source reports it, in ms."""
        return max(30_000, 3 * self.interval_ms)


def find_tls_conflicts(settings: Any, fields: Iterable[str]) -> Iterator[Conflict]:
    """Yield those of the given fields that have no effect on requests to the `url` of a source."""
    if settings.url is not None and settings.url.startswith("http://"):
        message = "found with a url of http://: needs https://"
        yield from settings.find_ineffective(fields, message, "url")
    elif settings.insecure:
        message = "found with insecure: true; allowed is one of them"
        yield from settings.find_ineffective(("ca_file",), message, "insecure")


class SourcesError(ValueError):
    """A list of sources is invalid; the message has a line for each problem."""


def read_sources(
    text: str | bytes, classes: Mapping[str, type[SourceSettings]], origin: str = "sources"
) -> tuple[SourceSettings, ...]:
    """Return the settings of each source, in the order of the text.

    Args:
        text: YAML, one document.
        classes: settings class by the name of the source (`registry.list_settings_classes`).
        origin: where the text comes from, for messages.

    Raises:
        SourcesError: with all problems.
    """
    try:
        documents, problems = read_documents(text)
        if len(documents) != 1:
            message = f"found {len(documents)} documents; allowed is one"
            problems.append(Problem("", message))
        read = [] if problems else list(_read(documents[0], classes, problems))
    except PolicyError as error:
        read, problems = [], list(error.problems)
    if problems:
        raise SourcesError("\n".join(f"{origin}: {problem}" for problem in problems))
    return tuple(read)


def _read(
    document: YamlDocument, classes: Mapping[str, type[SourceSettings]], problems: list[Problem]
) -> Iterable[SourceSettings]:
    def problem(path: Path, message: str) -> None:
        problems.append(Problem(format_path(path), message, document.line_of(path)))

    value = document.value
    if not isinstance(value, dict):
        return problem((), f"found {describe(value)}; allowed is a map with the field sources")
    for key in value:
        if key != "sources":
            problem((key,), f"unknown field{nearest(key, ['sources'])}")
    listed = value.get("sources")
    if not isinstance(listed, list) or not 0 < len(listed) <= SOURCES_MAX:
        allowed = f"a list of 1 to {SOURCES_MAX} sources"
        return problem(("sources",), f"found {describe(listed)}; allowed is {allowed}")
    labels: set[str] = set()
    can_report = False
    for index, entry in enumerate(listed):
        settings = _read_source(entry, ("sources", index), document, classes, problems)
        if settings is None:
            can_report = True  # perhaps, once it is corrected
            continue
        can_report |= settings.can_report_nodes
        if settings.label in labels:
            message = f"found {settings.label!r} a second time; give this source another name"
            problem(("sources", index, "name"), message)
        labels.add(settings.label)
        yield settings
    if not can_report:
        message = (
            "no source measures both cpu and memory of nodes, so no sample would be sent; allowed is a list "
            "with such a source, for example kubelet_resource, or a source with queries of both"
        )
        problem(("sources",), message)
    return None


def _read_source(
    entry: Any,
    at: Path,
    document: YamlDocument,
    classes: Mapping[str, type[SourceSettings]],
    problems: list[Problem],
) -> SourceSettings | None:
    def locate(path: Path) -> tuple[str, int | None]:
        return format_path((*at, *path)), document.line_of((*at, *path))

    name = entry.get("source") if isinstance(entry, dict) else None
    if not isinstance(name, str) or name not in classes:
        if not isinstance(entry, dict):
            path, message = at, f"found {describe(entry)}; allowed is a map with the field source"
        elif not isinstance(name, str):
            allowed = ", ".join(classes)
            path, message = (*at, "source"), f"found {describe(name)}; allowed is one of {allowed}"
        else:
            path, message = (*at, "source"), f"found {describe(name)}{nearest(name, classes)}"
        problems.append(Problem(format_path(path), message, document.line_of(path)))
        return None
    try:
        return build_model(classes[name], entry, locate=locate)
    except PolicyError as error:
        problems.extend(error.problems)
        return None
