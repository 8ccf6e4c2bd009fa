"""Text to policy: the documents of the text are put together, and the whole is validated once."""

from collections.abc import Iterator

from schemas.policy.assembly import Assembly
from schemas.policy.document import Policy
from schemas.policy.effects import refused, without_effect
from schemas.policy.errors import FURTHER, PolicyError, Problem
from schemas.policy.pasting import paste
from schemas.policy.plugins import BUILT_IN, KnownPlugins
from schemas.policy.upstream import PASTED
from schemas.policy.validation import validated
from schemas.policy.wording import describe
from schemas.policy.yamltext import YamlDocument, read_documents

#: Most pools of nodes: each selector is compared with the labels of each node.
NODE_POOLS_MAX = 64


def read_policy(
    text: str | bytes, known_plugins: KnownPlugins = BUILT_IN, *, accepted: bool = False
) -> Policy:
    """The policy that a text describes; empty text is the default policy.

    Raises `PolicyError` with every problem at once, in the order of the lines, and nothing else.

    Args:
        text: the document.
        known_plugins: the names that may be enabled.
        accepted: it is in force already, so checks that came later (of its size, of names, of profiles) do not hold
            for it.
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
        problems += (
            Problem(place[0], message, place[1])
            for path, message in refused(policy)
            for place in [assembly.place(path)]
        )
    if policy is None or problems:
        raise PolicyError(_in_order(problems))
    for path, why in without_effect(policy, assembly.raw):
        assembly.ignore_field(path, why)
    return policy.listing(assembly.not_applied)


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


def _beyond_limits(policy: Policy, assembly: Assembly) -> Iterator[Problem]:
    """Lists that are longer than a cluster's rounds can look through at every node."""
    path, line = assembly.place(("rebalance", "nodePools"))
    found = len(policy.rebalance.node_pools)
    if found > NODE_POOLS_MAX:
        yield Problem(path, f"found {found} pools; allowed are at most {NODE_POOLS_MAX}", line)


def _in_order(problems: list[Problem]) -> list[Problem]:
    """By line; what has none comes first. The same problem is told once."""
    return sorted(dict.fromkeys(problems), key=lambda each: (each == FURTHER, each.line or 0))
