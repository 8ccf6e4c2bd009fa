"""Watches whether the topics of a stage are still those that its state was built from.

Every few seconds it looks at each topic that the stage reads or writes, its journal and changelogs:

    missing           the stage is held until it is back: nothing is applied whose result could not be written
    other partitions  the stage is held: keys hash to other partitions now, and two workers would write one cluster
    made again        an input, the journal or a changelog: the stage is held and the worker is to be started again,
                      since what it has fetched and what it goes by are of a topic that is gone (`/healthz` says so)
    ends too early    (ids unknown, or brokers have lost records) the stage is held
    output made again nothing is held; what consumers had not read is gone, which the log says

While a stage is held nothing is passed over: records stay in Kafka. When the worker starts again,
an input that was made again is read from its first record on (`StageRunner`), and a journal that
was made again begins behind the tables (`durability`).
"""

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Literal, Protocol

from schemas.connection import KafkaSettings
from schemas.topics import TOPICS
from streams.worker.notices import RESTART, Notices
from streams.worker.telemetry import Telemetry
from streams.worker.topic_facts import TopicFacts, TopicReader
from streams.worker.undelivered import ENDS

logger = logging.getLogger(__name__)

#: Time between two looks, in seconds. With Prometheus' scrape and evaluation every 10 s an alert
#: comes within 30 s.
LOOK_S = 5.0

#: Watcher of notices that hold a stage.
WATCHER = "topics"

Problem = Literal["missing", "partitions", "made again", "ends early"]


def written_by(stage: str) -> list[str]:
    """Topics that a stage writes, but for its journal and tables."""
    return [topic.name for topic in TOPICS if topic.written_by(stage)]


class Held(Protocol):
    """A stage's runner as it is watched."""

    @property
    def name(self) -> str:
        """aggregate or cluster."""
        ...

    @property
    def notices(self) -> Notices:
        """What is found is reported here; what is reported here holds the stage."""
        ...


class TopicWatch:
    """Looks while it runs, and when it is asked to."""

    def __init__(
        self,
        kafka: KafkaSettings,
        telemetry: Telemetry,
        *,
        kept: Collection[str],
        written: Collection[str],
        partitions: int,
    ) -> None:
        """Watch these topics.

        Args:
            kafka: how to reach the brokers.
            telemetry: is given how many topics have which problem.
            kept: topics of which the state knows offsets or which hold it: inputs, journal,
                changelogs.
            written: topics that are only written to.
            partitions: how many each of them must have.
        """
        self._reader = TopicReader(kafka)
        self._telemetry = telemetry
        self._kept = frozenset(kept)
        self._names = self._kept | frozenset(written)
        self._partitions = partitions
        self.ids: dict[str, str] = {}
        """Ids of the topics as they were seen first; those that are unknown are not in it."""

    async def run(self, runner: Held) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look(runner)
            await asyncio.sleep(LOOK_S)

    async def look(self, runner: Held) -> bool:
        """Look once and report; answers whether brokers have answered."""
        found = await self._reader.read(list(self._names))
        if found is None:
            return False
        problems = self.judge(found)
        again = {name for name, problem in problems.items() if problem == "made again"}
        for name in sorted(again - self._kept):
            logger.warning("%s: %s", runner.name, _sentence(name, "made again", written=True))
            self.ids[name] = found[name].topic_id
        sentences = {
            name: _sentence(name, problem, found=found.get(name), expected=self._partitions)
            for name, problem in problems.items()
        }
        restart = again & self._kept
        runner.notices.report(RESTART, {name: sentences[name] for name in restart})
        runner.notices.report(
            WATCHER, {name: sentence for name, sentence in sentences.items() if name not in again}
        )
        held: list[Problem] = [
            problem for name, problem in problems.items() if name not in again - self._kept
        ]
        if runner.notices.found(ENDS):
            held.append("ends early")
        self._telemetry.topic_problems(runner.name, held)
        return True

    def judge(self, found: Mapping[str, TopicFacts]) -> dict[str, Problem]:
        """What is wrong with the topics; ids that are seen first hold from now on."""
        problems: dict[str, Problem] = {}
        for name in sorted(self._names):
            facts = found.get(name)
            if facts is None:
                problems[name] = "missing"
                continue
            if facts.topic_id and self.ids.setdefault(name, facts.topic_id) != facts.topic_id:
                problems[name] = "made again"
            elif facts.partitions != self._partitions:
                problems[name] = "partitions"
        return problems


def _sentence(
    name: str,
    problem: Problem,
    *,
    found: TopicFacts | None = None,
    expected: int = 0,
    written: bool = False,
) -> str:
    match problem:
        case "missing":
            return (
                f"topic {name} is missing; nothing is applied until it is back. `loadstream topics create` makes it "
                "again; what was in it is gone"
            )
        case "partitions":
            count = found.partitions if found is not None else 0
            return (
                f"topic {name} has {count} partitions; expected {expected}: keys hash to other partitions now, so "
                f"nothing is applied any more. Kafka cannot take partitions away: stop its producers, delete the "
                f"topic and make it again with `loadstream topics create`, then start the worker again and let "
                f"the producers send again what was not applied"
            )
    if written:
        return f"topic {name} was deleted and made again; what its consumers had not read is gone"
    return (
        f"topic {name} was deleted and made again. Nothing is applied, since its offsets mean other records now: "
        "start the worker again, which goes on with the new topic"
    )
