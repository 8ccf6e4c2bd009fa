"""Contenders by name: both stages under a policy, or a placement rule of another scheduler.

Built-in policies are files of `policies`, and rules are functions of `rules`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from schemas.policy import Policy, PolicyError, read_policy
from simulation.closed_loop.rule_contender import RuleContender
from simulation.closed_loop.rules import (
    least_allocated,
    load_variation_risk_balancing,
    random_choice,
    target_load_packing,
)
from simulation.closed_loop.rules.view import Rule
from simulation.closed_loop.stage_contender import StageContender
from simulation.closed_loop.world import Contender
from streams.in_process.pipeline import LocalPipeline
from streams.placement.registry import KNOWN

POLICIES = Path(__file__).parent / "policies"
RULES: Mapping[str, Rule] = {
    "least-allocated": least_allocated.choose,
    "load-variation-risk-balancing": load_variation_risk_balancing.choose,
    "random-choice": random_choice.choose,
    "target-load-packing": target_load_packing.choose,
}


@dataclass(frozen=True, slots=True)
class ContenderFactory:
    """Makes a contender for one run; a contender has state, so each run needs its own."""

    definition: str
    """Policy with all defaults, or name of the rule; equal definitions give equal decisions."""
    make: Callable[[], Contender]
    warning: str = ""
    """A warning about the figures of the contender, or empty."""


class InvalidContender(ValueError):
    """A name is unknown, or a file is not a policy; the message has a line for each problem."""


def list_contenders() -> tuple[str, ...]:
    """Return the names of all built-in contenders, policies first."""
    return (*_list_policies(), *RULES)


def make_factories(
    names: Iterable[str],
    files: Iterable[Path],
    make_stages: Callable[[], LocalPipeline] = LocalPipeline,
) -> dict[str, ContenderFactory]:
    """Return factories by name, in the given order: built-in contenders, then policies of files.

    Raises InvalidContender if a name is unknown, repeated or missing, or a file is not a policy, cannot be
    read, or has the name of a built-in contender.
    """
    policies = _list_policies()
    expected = ", ".join((*policies, *RULES))
    factories: dict[str, ContenderFactory] = {}

    def add(name: str, factory: ContenderFactory) -> None:
        if name in factories:
            raise InvalidContender(f"found {name} twice; expected different names")
        factories[name] = factory

    for name in names:
        if name in policies:
            add(name, _make_policy_factory(name, policies[name], make_stages))
        elif name in RULES:
            add(name, ContenderFactory(f"rule {name}", partial(RuleContender, name, RULES[name])))
        else:
            raise InvalidContender(f"found {name!r}; expected one or more of {expected}")
    for file in files:
        if file.stem in policies or file.stem in RULES:
            raise InvalidContender(
                f"found policy file {file}, but {file.stem} is a built-in contender; expected "
                "another file name"
            )
        try:
            add(file.stem, _make_policy_factory(file.stem, file, make_stages))
        except PolicyError as error:
            problems = (f"{file}: {problem}" for problem in error.problems)
            raise InvalidContender("\n".join(problems)) from None
        except OSError as error:
            raise InvalidContender(
                f"{file} cannot be read: {error.strerror}; expected a policy file"
            ) from None
    if not factories:
        raise InvalidContender(f"found no contender; expected one or more of {expected}")
    return factories


def _make_policy_factory(
    name: str, file: Path, make_stages: Callable[[], LocalPipeline]
) -> ContenderFactory:
    content = file.read_bytes()
    policy = read_policy(content, KNOWN)
    text = content.decode("utf-8")
    return ContenderFactory(
        policy.model_dump_json(),
        lambda: StageContender(name, text, make_stages()),
        _find_warning(name, policy),
    )


def _find_warning(name: str, policy: Policy) -> str:
    if not policy.plugins.balance or not policy.dry_run:
        return ""
    reason = "mode is observe" if policy.mode == "observe" else "a dryRun is true"
    return (
        f"{name}: {reason}, so its evictions are dry and no pod leaves a node; to see moves, set mode: "
        "enforce and remove dryRun"
    )


def _list_policies() -> dict[str, Path]:
    return {path.stem: path for path in sorted(POLICIES.glob("*.yaml"))}
