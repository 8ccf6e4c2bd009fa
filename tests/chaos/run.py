"""One chaos run: real brokers, real workers, load, the faults of the plan, and the verdict."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.topics import expected_topics
from tests.chaos.history import read
from tests.chaos.judge import Verdict, judge
from tests.chaos.load import open_load
from tests.chaos.member import Member
from tests.chaos.plan import Plan
from tests.chaos.session import Ended, Say, Session
from tests.chaos.surroundings import Surroundings
from tests.chaos.watched import Phase

PARTITIONS = 4


@dataclass
class Outcome:
    """The outcome of a run."""

    verdict: Verdict
    ended: list[Ended] = field(default_factory=list)
    gave_up: int = 0
    """How often a worker has lost what it held, and was started again."""
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        """Number of faults during a batch."""
        return sum(ending.phase is not Phase.IDLE for ending in self.ended)

    @property
    def migrating(self) -> int:
        """Number of faults during migrations."""
        return sum(ending.migrating > 0 for ending in self.ended)


async def run(plan: Plan, directory: Path, say: Say) -> Outcome:
    """Do a run with all its files below `directory`."""
    began_s = time.monotonic()
    outcome = Outcome(Verdict())
    with ExitStack() as stack:
        brokers = plan.scenario.brokers
        server = stack.enter_context(KafkaServer(directory / "kafka", brokers=brokers))
        for broker in server.members:
            stack.callback(broker.kill)  # a clean stop of each takes seconds
        kafka = server.settings.model_copy(
            update={"partitions": PARTITIONS, "replication_factor": min(brokers, 3)}
        )
        create_topics(connect(kafka), expected_topics(kafka))
        members = [
            Member(kafka, directory / f"worker-{number}", plan.scenario)
            for number in range(plan.scenario.workers)
        ]
        async with open_load(plan, kafka) as load:
            await load.begin()
            for member in members:
                stack.enter_context(member.worker)
            surroundings = Surroundings(kafka, members)
            session = Session(plan, load, server, members, surroundings, say)
            outcome.seconds["starting"] = time.monotonic() - began_s
            outcome.verdict.say(await session.go())
            outcome.ended, outcome.gave_up = session.ended, session.gave_up
        read_at_s = time.monotonic()
        outcome.seconds["under load"] = session.load_ended_s - began_s - outcome.seconds["starting"]
        outcome.seconds["settling"] = read_at_s - session.load_ended_s
        history = await read(kafka, surroundings.changed)
    verdict = judge(history)
    outcome.verdict.problems += verdict.problems
    outcome.verdict.figures = verdict.figures
    outcome.verdict.fullest_percent = verdict.fullest_percent
    if not verdict.figures["evictions executed"]:
        outcome.verdict.say(["no pod was evicted: nothing is shown of evictions"])
    outcome.seconds["judging"] = time.monotonic() - read_at_s
    outcome.seconds["all"] = time.monotonic() - began_s
    return outcome
