"""Text to policy: one document, validated as a whole."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from schemas.policy.document import Policy
from schemas.policy.errors import FURTHER, Finding, Path, PolicyError, Problem, path_text
from schemas.policy.lint import find_errors, find_warnings
from schemas.policy.parts import RESOURCES_MAX
from schemas.policy.sections.plugins import BUILT_IN, KnownPlugins
from schemas.policy.sections.rebalance import THRESHOLD_MAPS
from schemas.policy.validation import validated
from schemas.policy.wording import describe
from schemas.policy.yamltext import YamlDocument, read_documents

#: Most pools of nodes: each selector is compared with the labels of each node, and what is
#: collected in each pool is written to each partition of samples.
NODE_POOLS_MAX = 64

#: Fields by which a document of Kubernetes, of Koordinator or of a descheduler is known.
_FOREIGN = ("kind", "apiVersion", "profiles")

#: Gives the path of a value as text, and its line.
_Place = Callable[[Path], tuple[str, int | None]]

#: Policies kept as they were read last: the clusters of a fleet mostly have the same document.
_KEPT = 16


@lru_cache(_KEPT)
def read_policy(text: str | bytes, known_plugins: KnownPlugins = BUILT_IN) -> Policy:
    """The policy that a text describes; empty text is the default policy.

    Raises `PolicyError` with every problem at once, in the order of the lines, and nothing else.

    Args:
        text: the document.
        known_plugins: the names that may be enabled.
    """
    documents, problems = read_documents(text)
    document = _single_document(documents, problems)

    def place(path: Path) -> tuple[str, int | None]:
        return path_text(path), document.line_of(path) if path[:1] in document.lines else None

    policy = None
    try:
        policy = validated(
            Policy,
            document.value,
            context={"known_plugins": known_plugins},
            place=place,
        )
    except PolicyError as error:
        problems += error.problems
    if policy is not None:
        problems += _beyond_limits(policy, place)
        problems += _locate(find_errors(policy), place)
    if policy is None or problems:
        raise PolicyError(_in_order(problems))
    return policy.annotate(_in_order(list(_locate(find_warnings(policy), place))))


def _locate(findings: Iterable[Finding], place: _Place) -> Iterator[Problem]:
    for path, message in findings:
        written, line = place(path)
        yield Problem(written, message, line)


def _single_document(documents: list[YamlDocument], problems: list[Problem]) -> YamlDocument:
    """Return the one document of the text, or an empty one; raise PolicyError for anything else."""
    given = [each for each in documents if each.value is not None]
    problems = list(problems)
    for index, document in enumerate(given):
        value = document.value
        if not isinstance(value, dict):
            message = f"found {describe(value)}; expected a map of fields"
            problems.append(Problem("", message, document.line))
        elif foreign := [name for name in _FOREIGN if name in value]:
            kind = value.get("kind")
            found = f"{kind!r}" if isinstance(kind, str) else "a document of another kind"
            message = (
                f"found {found}; a policy has no {foreign[0]}: translate other configurations with "
                '"loadstream policy import FILE"'
            )
            problems.append(Problem(foreign[0], message, document.line_of((foreign[0],))))
        elif index:
            first = given[0].line
            message = f"found a second policy, the first begins in line {first}; allowed is one"
            problems.append(Problem("", message, document.line))
        else:
            continue
        raise PolicyError(_in_order(problems))
    return given[0] if given else YamlDocument({}, 1, {})


def _beyond_limits(policy: Policy, place: _Place) -> Iterator[Problem]:
    """Lists of pools that are longer than what a cluster does with every pool allows."""
    for at, found in (
        (("rebalance", "nodePools"), len(policy.rebalance.node_pools)),
        (("collect", "pools"), len(policy.collect.pools)),
    ):
        path, line = place(at)
        if found > NODE_POOLS_MAX:
            yield Problem(path, f"found {found} pools; allowed are at most {NODE_POOLS_MAX}", line)
    yield from _too_many_resources(policy, place)


def _too_many_resources(policy: Policy, place: _Place) -> Iterator[Problem]:
    """More resources with thresholds than a node's metric and the record of a round can name."""
    pools = policy.rebalance.pools(policy.compat)
    # Koordinator's pools fill each other's maps, and memory into all of them.
    named = {"memory"} if policy.compat == "koordinator" else set()
    for pool in pools:
        for field in THRESHOLD_MAPS:
            named.update(getattr(pool, field) or {})
    if len(named) > RESOURCES_MAX:
        path, line = place(("rebalance",))
        message = (
            f"found thresholds of {len(named)} resources in all pools together; allowed are at most "
            f"{RESOURCES_MAX}"
        )
        yield Problem(path, message, line)


def _in_order(problems: list[Problem]) -> list[Problem]:
    """By line; what has none comes first. The same problem is reported once."""
    return sorted(dict.fromkeys(problems), key=lambda each: (each == FURTHER, each.line or 0))
