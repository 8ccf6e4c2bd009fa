"""The section `moves`: defaults and rules."""

import pytest

from schemas.policy import Policy, PolicyError, read_policy
from tests.schemas.policy.harness import refused


def test_moves_are_remembered_except_with_compat_koordinator() -> None:
    assert Policy().remembers_moves
    assert read_policy("moves: {followSeconds: 60}").remembers_moves
    assert not read_policy("moves: {enabled: false}").remembers_moves
    assert not read_policy("compat: koordinator").remembers_moves


def test_the_longest_wait_is_at_least_the_first_wait() -> None:
    first, longest = "initialFreezeSeconds", "maxFreezeSeconds"
    (problem,) = refused(read_policy, f"moves:\n  {first}: 100\n  {longest}: 99\n").problems
    assert (problem.path, problem.line) == (f"moves.{longest}", 3)
    assert problem.message == f"{first} is 100 and {longest} is 99; the maximum must not be smaller"
    with pytest.raises(PolicyError, match=f"moves.{first}: "):
        read_policy(f"moves: {{{first}: 604800}}")


@pytest.mark.parametrize(
    "field",
    [
        "coolingSeconds: 0",
        "coolingMetrics: -1",
        "maxMovesPerOwner: 32",
        "followSeconds: 10m",
        "freezeSeconds: 10",
    ],
)
def test_values_outside_the_bounds_are_refused(field: str) -> None:
    with pytest.raises(PolicyError, match="moves"):
        read_policy(f"moves: {{{field}}}")
