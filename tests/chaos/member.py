"""A worker of a chaos run, and the state of its batch."""

import signal
from pathlib import Path

from connectors.process.local_ports import find_free_port
from schemas.settings.connection import KafkaSettings
from tests.chaos.plan import Scenario
from tests.chaos.watched import Mark, Phase
from tests.streams.worker_process import Worker


class Member:
    """A worker and the mark of its batch."""

    def __init__(self, kafka: KafkaSettings, directory: Path, scenario: Scenario) -> None:
        directory.mkdir(parents=True)
        file = directory / "mark"
        self.mark = Mark(file)
        program = ("-m", "tests.chaos.watched", str(file))
        replicas = str(scenario.standby_replicas)
        self.port = find_free_port()
        self.worker = Worker(
            kafka, directory, program, standby_replicas=replicas, metrics_port=str(self.port)
        )
        self.may_give_up = scenario.workers > 1
        """It may find that it has lost what it held, and end with an error: it stood still, its machine was
        crowded, or another one stood still while it took partitions over and shuts this one out."""

    def start(self) -> None:
        """Start the worker; resets the mark of its previous process."""
        self.mark.phase = Phase.IDLE
        self.worker.start()

    def stopped(self) -> str | None:
        """Wait for a worker that was asked to stop, and return the problem with its exit, if any.

        A worker that discovers during the stop that it lost its partitions gives up instead of ending
        cleanly. A worker that has just been started cannot end cleanly yet.
        """
        code = self.worker.wait()
        if code == -signal.SIGTERM and not self.worker.begun:
            return None
        if code == 0 or (self.may_give_up and self.worker.lost_what_it_held):
            return None
        return f"ended with code {code} on SIGTERM:\n{self.worker.log()}"

    def check(self) -> bool:
        """Fail if the worker has died; restart a worker that gave up, as its supervisor does.

        Returns whether it gave up.
        """
        # Read once: a worker that ends while its log is read would look dead instead of having given up.
        if not self.worker.ended:
            return False
        if not (self.may_give_up and self.worker.gave_up):
            self.worker.check()
        self.start()
        return True
