"""Read the text of a policy: parse, validate, and check it as a whole."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from schemas.policy.document import Policy
from schemas.policy.errors import FURTHER, Finding, Path, PolicyError, Problem, format_path
from schemas.policy.lint import find_errors, find_warnings
from schemas.policy.sections.plugins import BUILT_IN, KnownPlugins
from schemas.policy.validation import build_model
from schemas.policy.wording import describe
from schemas.policy.yamltext import YamlDocument, read_documents

#: Fields that identify a document of Kubernetes, Koordinator or a descheduler.
_FOREIGN = ("kind", "apiVersion", "profiles")

#: Returns the path of a value as text, and its line.
_Locate = Callable[[Path], tuple[str, int | None]]

#: Cached policies: most clusters of a fleet have the same document.
_CACHED_POLICIES = 16


@lru_cache(_CACHED_POLICIES)
def read_policy(text: str | bytes, known_plugins: KnownPlugins = BUILT_IN) -> Policy:
    """Return the policy that a text describes; empty text is the default policy.

    Raises `PolicyError` with all problems, in the order of the lines.

    Args:
        text: the document.
        known_plugins: the names of plugins that may be enabled.
    """
    documents, problems = read_documents(text)
    document = _single_document(documents, problems)

    def locate(path: Path) -> tuple[str, int | None]:
        return format_path(path), document.line_of(path) if path[:1] in document.lines else None

    policy = None
    try:
        policy = build_model(
            Policy,
            document.value,
            context={"known_plugins": known_plugins},
            locate=locate,
        )
    except PolicyError as error:
        problems += error.problems
    if policy is not None:
        problems += _locate_findings(find_errors(policy), locate)
    if policy is None or problems:
        raise PolicyError(_sort_problems(problems))
    return policy.annotate(_sort_problems(list(_locate_findings(find_warnings(policy), locate))))


def _locate_findings(findings: Iterable[Finding], locate: _Locate) -> Iterator[Problem]:
    for path, message in findings:
        written, line = locate(path)
        yield Problem(written, message, line)


def _single_document(documents: list[YamlDocument], problems: list[Problem]) -> YamlDocument:
    """Return the only document of the text, or an empty document. Raises PolicyError."""
    filled = [document for document in documents if document.value is not None]
    problems = list(problems)
    for index, document in enumerate(filled):
        value = document.value
        if not isinstance(value, dict):
            message = f"found {describe(value)}; expected a map of fields"
            problems.append(Problem("", message, document.line))
        elif foreign := [name for name in _FOREIGN if name in value]:
            kind = value.get("kind")
            kind_text = f"{kind!r}" if isinstance(kind, str) else "a document of another kind"
            message = (
                f"found {kind_text}; a policy has no {foreign[0]}: translate other configurations with "
                '"loadstream policy import FILE"'
            )
            problems.append(Problem(foreign[0], message, document.line_of((foreign[0],))))
        elif index:
            first = filled[0].line
            message = f"found a second policy; the first begins in line {first}; expected one"
            problems.append(Problem("", message, document.line))
        else:
            continue
        raise PolicyError(_sort_problems(problems))
    return filled[0] if filled else YamlDocument({}, 1, {})


def _sort_problems(problems: list[Problem]) -> list[Problem]:
    """Sort by line, problems without a line first, and drop duplicates."""
    return sorted(
        dict.fromkeys(problems), key=lambda problem: (problem == FURTHER, problem.line or 0)
    )
