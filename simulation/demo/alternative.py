"""The same cluster under another policy, for comparison: a whole run again, without a broker.

The same pods come at the same times on the same base load, this very machine's as it was measured;
both stages decide, in this process, under the two acts of the run. Commands are carried out by the
same kubelets and disruption budgets. Time passes in even steps, so decisions are read up to a step
later than in the run itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from schemas.codec import decode, encode
from schemas.refusals import Refusal
from schemas.topics import key_of
from simulation.demo.scenario import Scenario
from simulation.demo.session import READ_TOPICS, Session
from streams.in_process.pipeline import Pipeline, Written

#: Time between two steps.
STEP_MS = 60_000
#: Koordinator's defaults with LowNodeLoad up to 75 %, in the demo's time.
_KOORDINATOR = Path(__file__).parent / "policies" / "koordinator.yaml"
#: Below this, in percent, LowNodeLoad takes a node for one with room.
_LOW = 45.0


def koordinator_thresholds(hot_share: float) -> tuple[float, float]:
    """Percent of a node's cores between which LowNodeLoad leaves a node alone.

    The upper one is what the run itself calls hot: both ways are after the same nodes.
    """
    high = round(100 * hot_share, 6)
    return min(_LOW, high), high


def koordinator_policy(hot_share: float) -> str:
    """The text of Koordinator's policy, which relieves nodes above this share of their cores."""
    policy = yaml.safe_load(_KOORDINATOR.read_text(encoding="utf-8"))
    low, high = koordinator_thresholds(hot_share)
    policy["rebalance"] |= {"lowThresholds": {"cpu": low}, "highThresholds": {"cpu": high}}
    return yaml.safe_dump(policy, sort_keys=False)


def run_under(
    policy: str,
    scenario: Scenario,
    until_ms: int,
    given_up: Callable[[], bool] = lambda: False,
) -> Session | None:
    """The run of a scenario under the text of another policy, up to a time.

    `given_up` is asked at each step whether it takes too long; none: it was given up.
    """
    other = _Alternative(replace(scenario, policy_text=policy, live=None))
    for _ in other.steps(until_ms):
        if given_up():
            return None
    return other.session


class _Alternative:
    """A session whose messages go to stages in this process."""

    def __init__(self, scenario: Scenario) -> None:
        self._stages = Pipeline()
        self._unread: list[Written] = []
        self.session = Session(scenario, self._send, 1)

    def steps(self, until_ms: int) -> Iterator[int]:
        """From the beginning to a time; the time after each step."""
        self.session.begin()
        self._settle()
        while self.session.now_ms < until_ms:
            self.session.advance(min(until_ms, self.session.now_ms + STEP_MS), 0.0)
            self._settle()
            yield self.session.now_ms

    def _send(self, topic: str, message: Any) -> None:
        key, now_ms = key_of(topic, message), self.session.now_ms
        self._unread.append(Written(topic, key, encode(message), now_ms))

    def _settle(self) -> None:
        """Let the stages apply everything and the session take in everything, until both are done."""
        while self._unread:
            records, self._unread = self._unread, []
            for topic, value in self._stages.apply(records):
                if topic not in READ_TOPICS:
                    continue
                message = decode(topic, value)
                if isinstance(message, Refusal):
                    raise TypeError(f"the stages wrote a record of {topic} that cannot be read")
                self.session.receive(message, 0, 0.0)
