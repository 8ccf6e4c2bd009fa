"""Text to policy: the documents of the text are put together, and the whole is validated once."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from schemas.policy.assembly import Assembly
from schemas.policy.document import Policy
from schemas.policy.errors import FURTHER, PolicyError, Problem
from schemas.policy.lint import Finding, find_errors, find_warnings
from schemas.policy.lownodeload import THRESHOLD_MAPS
from schemas.policy.parts import RESOURCES_MAX
from schemas.policy.pasting import paste
from schemas.policy.plugins import BUILT_IN, UPSTREAM_BALANCE, UPSTREAM_SCORES, KnownPlugins
from schemas.policy.upstream import PASTED
from schemas.policy.validation import validated
from schemas.policy.wording import describe
from schemas.policy.yamltext import YamlDocument, read_documents

#: Most pools of nodes: each selector is compared with the labels of each node, and what is
#: collected in each pool is written to each partition of samples.
NODE_POOLS_MAX = 64

#: Kinds of documents that speak of who places pods by load.
_OF_SCHEDULER = ("KubeSchedulerConfiguration", "LoadAwareSchedulingArgs")
#: Kinds of documents that speak of who moves pods.
_OF_DESCHEDULER = (
    "DeschedulerConfiguration",
    "DeschedulerPolicy",
    "LowNodeLoadArgs",
    "MigrationControllerArgs",
    "DefaultEvictorArgs",
)

#: Policies kept as they were read last: the clusters of a fleet mostly have the same document.
_KEPT = 16


@lru_cache(_KEPT)
def read_policy(
    text: str | bytes, known_plugins: KnownPlugins = BUILT_IN, *, accepted: bool = False
) -> Policy:
    """The policy that a text describes; empty text is the default policy.

    Raises `PolicyError` with every problem at once, in the order of the lines, and nothing else.

    Args:
        text: the document.
        known_plugins: the names that may be enabled.
        accepted: it is in force already, so checks that came later (of its size, of names, of
            profiles) do not hold for it.
    """
    documents, problems = read_documents(text, accepted=accepted)
    assembly = Assembly()
    _assemble(assembly, documents, known_plugins, accepted=accepted)
    problems += assembly.problems
    assembly.ignore_marked(Policy)
    policy = None
    try:
        policy = validated(
            Policy,
            assembly.raw,
            context={
                "known_plugins": known_plugins,
                "accepted": accepted,
            },
            place=assembly.place,
        )
    except PolicyError as error:
        problems += error.problems
    if policy is not None and not accepted:
        problems += _beyond_limits(policy, assembly)
        problems += _locate(find_errors(policy), assembly)
    if policy is None or problems:
        raise PolicyError(_in_order(problems))
    warnings = _in_order(list(_locate(find_warnings(policy), assembly)))
    return policy.annotate(assembly.not_applied, warnings)


def _locate(findings: Iterable[Finding], assembly: Assembly) -> Iterator[Problem]:
    for path, message in findings:
        written, line = assembly.place(path)
        yield Problem(written, message, line)


def _assemble(
    assembly: Assembly, documents: list[YamlDocument], known: KnownPlugins, *, accepted: bool
) -> None:
    """Take in every document of the text."""
    own = None
    for document in documents:
        if document.value is None:
            continue
        if not isinstance(document.value, dict):
            message = f"found {describe(document.value)}; expected a map of fields"
            assembly.problem(document, (), message)
        elif "kind" in document.value:
            paste(assembly, document, known, accepted=accepted)
        elif "profiles" in document.value:
            kinds = ", ".join(PASTED)
            message = f"stands in a pasted configuration, which needs its kind: one of {kinds}"
            assembly.problem(document, ("profiles",), message)
        elif own is not None:
            message = f"found a second policy, the first begins in line {own}; allowed is one"
            assembly.problem(document, (), message)
        else:
            own = document.line
            assembly.take(document)
    # What Koordinator's configurations leave to defaults is left to Koordinator's.
    for document in documents:
        kind = document.value.get("kind") if isinstance(document.value, dict) else None
        if kind in _OF_SCHEDULER:
            # Given by name they have upstream's thresholds.
            assembly.fill("plugins", "filter", list(BUILT_IN.filter))
        if kind == "KubeSchedulerConfiguration":
            assembly.fill("plugins", "score", list(UPSTREAM_SCORES))
        elif kind in _OF_DESCHEDULER:
            assembly.fill("plugins", "balance", list(UPSTREAM_BALANCE))


def _beyond_limits(policy: Policy, assembly: Assembly) -> Iterator[Problem]:
    """Lists of pools that are longer than what a cluster does with every pool allows."""
    for at, found in (
        (("rebalance", "nodePools"), len(policy.rebalance.node_pools)),
        (("collect", "pools"), len(policy.collect.pools)),
    ):
        path, line = assembly.place(at)
        if found > NODE_POOLS_MAX:
            yield Problem(path, f"found {found} pools; allowed are at most {NODE_POOLS_MAX}", line)
    yield from _too_many_resources(policy, assembly)


def _too_many_resources(policy: Policy, assembly: Assembly) -> Iterator[Problem]:
    """More resources with thresholds than a node's metric and the record of a round can name."""
    pools = policy.rebalance.pools(policy.compat)
    # Koordinator's pools fill each other's maps, and memory into all of them.
    named = {"memory"} if policy.compat == "koordinator" else set()
    for pool in pools:
        for field in THRESHOLD_MAPS:
            named.update(getattr(pool, field) or {})
    if len(named) > RESOURCES_MAX:
        path, line = assembly.place(("rebalance",))
        message = (
            f"found thresholds of {len(named)} resources in all pools together; allowed are at most "
            f"{RESOURCES_MAX}"
        )
        yield Problem(path, message, line)


def _in_order(problems: list[Problem]) -> list[Problem]:
    """By line; what has none comes first. The same problem is reported once."""
    return sorted(dict.fromkeys(problems), key=lambda each: (each == FURTHER, each.line or 0))
