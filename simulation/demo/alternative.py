"""The same cluster under another policy, for comparison: a whole run again, without a broker.

The same pods come at the same times on the same base load; both stages decide, in this process,
under the two acts of the run. Commands are carried out by the same kubelets and disruption budgets.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from schemas.base.refusals import Refusal
from schemas.topics.catalog import key_of
from schemas.topics.codec import decode, encode
from simulation.demo.course import Course
from simulation.demo.scenario import Scenario
from simulation.demo.session import READ_TOPICS, Session
from streams.in_process.pipeline import Pipeline, Written

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


def run_under(policy: str, scenario: Scenario) -> Session:
    """Run a scenario under the text of another policy."""
    pipeline = Pipeline()

    def deliver(topic: str, messages: list[Any]) -> Iterator[Any]:
        written = [
            Written(topic, key_of(topic, message), encode(message), course.session.now_ms)
            for message in messages
        ]
        for answered, value in pipeline.apply(written):
            if answered in READ_TOPICS:
                answer = decode(answered, value)
                if isinstance(answer, Refusal):
                    raise TypeError(f"the stages wrote a record of {answered} that cannot be read")
                yield answer

    course = Course(replace(scenario, policy_text=policy), deliver, 0)
    for _ in course.steps():
        pass
    return course.session
