"""A printed policy reads back equal, and invalid text raises only `PolicyError`."""

import json
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.policy import PolicyError, effective_yaml, read_policy
from tests.histories.policies import draw_policy

Raw = dict[str, Any]

#: The duration of one case is meaningless on a shared machine.
unhurried = settings(deadline=None)
often = settings(deadline=None, max_examples=300)

#: Any text that Unicode and JSON can carry in one escape, control characters among it.
TEXT = st.text(
    st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1, max_size=12
)


@st.composite
def policies(draw: st.DrawFn) -> Raw:
    """Policies as histories draw them, with names of any text."""
    document: Raw = json.loads(draw_policy(Random(draw(st.integers(0, 2**32)))))
    names = draw(st.lists(TEXT, max_size=3))
    return document | {"migration": document.get("migration", {}) | {"schedulerNames": names}}


@unhurried
@given(policies())
def test_a_policy_that_is_read_and_printed_reads_back_equal(raw: Raw) -> None:
    policy = read_policy(json.dumps(raw))
    printed = effective_yaml(policy)
    again = read_policy(printed)
    assert again == policy
    assert again.digest == policy.digest
    assert effective_yaml(again) == printed


@unhurried
@given(policies(), st.randoms(use_true_random=False))
def test_the_order_of_fields_does_not_matter(raw: Raw, random: Any) -> None:
    def shuffle(value: Any) -> Any:
        if isinstance(value, dict):
            entries = [(key, shuffle(item)) for key, item in value.items()]
            random.shuffle(entries)
            return dict(entries)
        return [shuffle(item) for item in value] if isinstance(value, list) else value

    assert read_policy(json.dumps(shuffle(raw))).digest == read_policy(json.dumps(raw)).digest


def reads_or_refuses(text: str | bytes) -> None:
    """Read any text: the result is a policy or a `PolicyError` with at least one problem."""
    problems = None
    try:
        read_policy(text)
    except PolicyError as error:
        problems = error.problems
    assert problems is None or problems


@unhurried
@given(st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(text: bytes) -> None:
    reads_or_refuses(text)


YAML_PIECES = st.sampled_from(
    [
        "mode", "loadAware", "rebalance", "plugins", "kind", "usageThresholds", "cpu", "profiles",
        "KubeSchedulerConfiguration", "DeschedulerPolicy", "pluginConfig", "args", "name", "5", "1e9",
        "null", "true", ".nan", "'", '"', ": ", ":", "- ", "\n", "\n  ", "\n    ", "{", "}", "[", "]",
        ", ", "? ", "&a ", "*a", "<<", "!!str ", "!x ", "|\n", ">\n", "---\n", "...\n", "%YAML 1.2\n",
        "#", "\t", "\\", "\ufeff", "\x85", "\u2028", "\x00", "é", "5m", "-",
    ]
)  # fmt: skip


@often
@given(st.lists(YAML_PIECES, max_size=40).map("".join))
def test_pieces_of_yaml_in_any_order_are_read_or_refused(text: str) -> None:
    reads_or_refuses(text)


KEYS = st.sampled_from(
    [
        "mode", "compat", "plugins", "filter", "score", "balance", "loadAware", "usageThresholds", "cpu",
        "aggregated", "rebalance", "nodePools", "nodeSelector", "matchExpressions", "migration",
        "objectLimiters", "workload", "evictor", "podProtections", "config", "PodsWithPVC", "collect",
        "pools", "descheduling", "kind", "apiVersion", "profiles", "pluginConfig", "name", "args",
        "enabled", "disabled", "multiPoint", "leaderElection", "x",
    ]
)  # fmt: skip
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(
        [
            "KubeSchedulerConfiguration", "DeschedulerConfiguration", "DeschedulerPolicy",
            "LowNodeLoadArgs", "LowNodeLoad", "LoadAwareScheduling", "MigrationController", "5m", "*", "",
        ]
    ),
    TEXT,
)  # fmt: skip


@often
@given(
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)
        ),
        max_leaves=20,
    )
)
def test_values_of_any_shape_are_read_or_refused(value: Any) -> None:
    reads_or_refuses(json.dumps(value))
