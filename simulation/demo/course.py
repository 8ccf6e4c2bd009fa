"""One run of a session from its begin to its end, step by step.

The session's records go to the stages one topic after the other, and each time the stages' answers
are taken in before the next topic. Answers cause records of their own (a bound pod, a new request),
which go the same way until nothing is left; then the next step begins. So what is decided depends on
the scenario alone, however fast the stages are.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from simulation.demo.scenario import Scenario
from simulation.demo.session import Session

#: Simulated time between two steps, as between two metrics of a node and between two rounds. Commands
#: are carried out at the step at which they are read.
STEP_MS = 300_000

#: Gives records of one topic to the stages and returns their answers, once all are applied.
Deliver = Callable[[str, list[Any]], Iterable[Any]]


class Course:
    """A session whose records go to stages."""

    def __init__(self, scenario: Scenario, deliver: Deliver, partition: int) -> None:
        """Prepare a run.

        Args:
            scenario: what is run.
            deliver: gives records to the stages.
            partition: the partition of the demo's cluster.
        """
        self.session = Session(scenario, self._send, partition)
        self._deliver = deliver
        self._unsent: dict[str, list[Any]] = {}

    def steps(self) -> Iterator[None]:
        """Run the scenario; yields after each step."""
        session = self.session
        session.begin()
        self._settle()
        yield
        while not session.over:
            session.advance(min(session.now_ms + STEP_MS, session.scenario.end_ms))
            self._settle()
            yield

    def _send(self, topic: str, message: Any) -> None:
        self._unsent.setdefault(topic, []).append(message)

    def _settle(self) -> None:
        while self._unsent:
            unsent, self._unsent = self._unsent, {}
            for topic, messages in unsent.items():
                for answer in self._deliver(topic, messages):
                    self.session.receive(answer)
