"""A shorter history that fails in the same kind, found by leaving records out (delta debugging).

First whole clusters and topics are left out, which takes few trials; then, after Zeller and
Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002), ever smaller pieces: what
fails without a piece goes on without it.
"""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

from tests.fuzz.campaign import repeat
from tests.fuzz.history import Cut, History, Step

Steps = Sequence[Step]
T = TypeVar("T")


def shortened(history: History, kind: str, seconds: float) -> History:
    """The shortest history found within so much CPU that fails in this kind."""
    end_s = time.process_time() + seconds

    def fails(steps: Steps) -> bool:
        failure = repeat(replace(history, steps=tuple(steps))).failure
        return failure is not None and failure.kind == kind

    def over() -> bool:
        return time.process_time() >= end_s

    steps: Steps = history.steps
    for simpler in (_without_cuts, _cut_everywhere):
        if not over() and fails(simpler(steps)):
            steps = simpler(steps)
            break
    for group in (_key, _topic, _place):
        steps = _without_groups(steps, group, fails, over)
    return replace(history, steps=tuple(minimal(steps, fails, over)))


def minimal(
    steps: Sequence[T], fails: Callable[[Sequence[T]], bool], over: Callable[[], bool]
) -> Sequence[T]:
    """Leave out all that can be left out, as far as the time allows."""
    pieces = 2
    while len(steps) > 1 and not over():
        size = -(-len(steps) // pieces)
        left_out = False
        start = 0
        while start < len(steps) and not over():
            rest = [*steps[:start], *steps[start + size :]]
            if rest and fails(rest):
                steps, left_out = rest, True
            else:
                start += size
        if size == 1 and not left_out:
            break
        pieces = min(len(steps), 2 * pieces)
    return steps


def _without_groups(
    steps: Steps,
    group: Callable[[Step], Hashable],
    fails: Callable[[Steps], bool],
    over: Callable[[], bool],
) -> Steps:
    """Leave out all steps of a group where it fails without them as well."""
    for each in dict.fromkeys(map(group, steps)):
        rest = [step for step in steps if group(step) != each]
        if rest and not over() and fails(rest):
            steps = rest
    return steps


def _key(step: Step) -> Hashable:
    return step.record.key


def _topic(step: Step) -> Hashable:
    return step.record.topic


def _place(step: Step) -> Hashable:
    return step.record.topic, step.record.key


def _without_cuts(steps: Steps) -> Steps:
    """The worker starts again at the end alone."""
    return [replace(step, cut=Cut.NONE) for step in steps]


def _cut_everywhere(steps: Steps) -> Steps:
    """The worker starts again after each record."""
    return [replace(step, cut=Cut.RESTART) for step in steps]
