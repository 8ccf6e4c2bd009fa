"""Histories by their seeds: made and tried at once, or tried again from what was kept."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tests.fuzz.aggregate_trial import AggregateTrial
from tests.fuzz.cluster_inputs import ClusterInputs
from tests.fuzz.cluster_trial import ClusterTrial
from tests.fuzz.coverage import Coverage
from tests.fuzz.failure import Failure
from tests.fuzz.history import History, StageName, Step
from tests.fuzz.trial import Trial
from tests.fuzz.usage_inputs import UsageInputs


class Inputs(Protocol):
    """Makes the records of a history, one at a time."""

    def steps(self, records: int) -> Iterator[Step]:
        """A history of this many records."""
        ...

    def hear(self, messages: Sequence[Any]) -> None:
        """The stage has said this after the record made last."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one history."""

    history: History
    """Up to the record that failed."""
    coverage: Coverage
    failure: Failure | None = None


def explore(stage: StageName, seed: int, records: int) -> Outcome:
    """Make a history and try it."""
    inputs: Inputs = ClusterInputs(seed) if stage == "cluster" else UsageInputs(seed)
    trial = _trial(stage, seed)
    steps: list[Step] = []

    def made() -> Iterator[Step]:
        for step in inputs.steps(records):
            steps.append(step)
            yield step

    failure = _run(trial, made(), inputs)
    return Outcome(History(stage, seed, tuple(steps)), trial.coverage, failure)


def repeat(history: History) -> Outcome:
    """Try a history that was made before."""
    trial = _trial(history.stage, history.seed)
    failure = _run(trial, history.steps)
    return Outcome(history, trial.coverage, failure)


def _trial(stage: StageName, seed: int) -> Trial:
    return ClusterTrial(seed) if stage == "cluster" else AggregateTrial(seed)


def _run(trial: Trial, steps: Iterable[Step], inputs: Inputs | None = None) -> Failure | None:
    try:
        for step in steps:
            said = trial.take(step)
            if inputs is not None:
                inputs.hear(said)
        trial.finish()
    except Failure as failure:
        return failure
    return None
