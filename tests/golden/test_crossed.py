"""Golden scenarios crossed at random: events of one under the arguments of another.

Nobody knows what Koordinator would answer to them. But every question has two ways to its answer here: a plugin is
asked about all nodes at once and about one; a ranking is kept up to date and made from nothing; state goes on and is
put together from its rows; columns are kept and packed anew. The two must agree, whatever the scenario.
"""

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from schemas.base.message import Message
from schemas.policy import Policy, PolicyError, effective_yaml
from schemas.storage.tables import kind_of_key, row_key
from streams.cluster import tables
from streams.cluster.state import ClusterState
from streams.pods.kind import kind_of
from streams.rebalance.balancer import Balancer
from streams.rebalance.outcome import HIGH, LOW
from streams.stage.packing import apply_changes
from streams.stage.records import RowChange, read_row
from tests.golden import loadaware, lownodeload, objects
from tests.golden.cases import scenarios
from tests.golden.comparison import Json
from tests.golden.times import in_milliseconds
from tests.streams.cluster.builders import policy_record
from tests.streams.cluster.oracle import check, verdict

pytestmark = pytest.mark.slow

_GOLDEN = Path(__file__).parent
#: Crosses of each family in a test, and tests.
_CROSSES, _TESTS = 15, 4


def crosses(family: str, seed: int) -> Iterator[tuple[str, Json, Json]]:
    """Name, events and arguments of crosses; arguments that are refused are left out."""
    cases = [case["scenario"] for case in scenarios(_GOLDEN / f"{family}.jsonl.gz")]
    chosen = random.Random(seed)
    for _ in range(_CROSSES):
        events, args = chosen.choice(cases), chosen.choice(cases)
        later = chosen.choice(cases).get("then", ())
        if "then" in events:
            events = {**events, "then": _in_order([*events["then"], *later])}
        yield f"{events['name']} with {args['name']}", in_milliseconds(events), args["args"]


def _in_order(steps: list[Any]) -> list[Any]:
    """Steps of two scenarios as those of one, whose clock does not go back."""
    ordered = sorted(steps, key=lambda step: str(step["now"]))
    assert all(a["now"] <= b["now"] for a, b in pairwise(ordered))
    return ordered


# --- filter and score ---------------------------------------------------------------------------


def _read(rows: dict[str, bytes], kind: str) -> Iterator[Message]:
    for key, value in sorted(rows.items()):
        if kind_of_key(key) == kind:
            yield read_row(key, value)


class TwoWays(loadaware.World):
    """Answers each question in every way that there is."""

    def __init__(self, policy: Policy, scenario: Json) -> None:
        super().__init__(policy, scenario)
        record = policy_record(effective_yaml(policy))
        self.state.policy_record = record.model_copy(update={"cluster": objects.CLUSTER})
        self.state.policy_changed = True
        self._rows: dict[str, bytes] = {}

    def evaluate(self) -> Json:
        answers = super().evaluate()
        for nodes in answers.values():
            for answer in nodes.values():
                assert not answer["filter"].startswith("the mask says otherwise"), answer
                assert isinstance(answer["score"], int), answer
        inventory = self.state.inventory
        for item in self.scenario["pods"]:
            kind = kind_of(objects.pod(item))
            check(
                self.state.placement.placer.rank(kind), verdict(self.state.policy, inventory, kind)
            )
        running, self.state = self.state, self._restored()
        assert super().evaluate() == answers
        self.state = running
        return answers

    def _restored(self) -> ClusterState:
        apply_changes(self._rows, tables.changed_rows(self.state, 0))
        return tables.restore(
            objects.CLUSTER,
            self.state.now_ms,
            tables.rows_by_cluster(self._rows.items())[objects.CLUSTER],
        )


@pytest.mark.parametrize("seed", range(_TESTS))
def test_all_ways_to_filter_and_score_agree(seed: int) -> None:
    answered = 0
    for name, events, args in crosses("loadaware", seed):
        try:
            world = TwoWays(loadaware.policy_of(args), events)
        except PolicyError:
            continue
        try:
            answered += len(list(world.rounds()))
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
    assert answered


# --- rounds -------------------------------------------------------------------------------------


class Restarting(lownodeload.World):
    """Is put together from its rows before every round."""

    def __init__(self, policy: Policy, scenario: Json) -> None:
        super().__init__(policy, scenario)
        self.policy = policy
        self._rows: dict[str, bytes] = {}

    def round(self, step: Json) -> Json:
        self.balancer = Balancer("golden", self.policy, self.inventory)
        self.inventory.touched.update(dict.fromkeys(self.inventory.nodes))
        for table in self.balancer.tracked_rows:
            table.restore(_read(self._rows, table.kind))
        self.inventory.move_thresholds()
        answer = super().round(step)
        for table in self.balancer.tracked_rows:
            for name, row in table.changed_rows():
                key = row_key(0, "golden", table.kind, name)
                apply_changes(self._rows, [RowChange(key, row)])
        return answer


class Plain(lownodeload.World):
    """Works out each node's class a second time, from the scenario and in plain numbers."""

    def round(self, step: Json) -> Json:
        answer = super().round(step)
        for pool in self.outcome.pools:
            thresholds = pool.thresholds
            if thresholds.deviation:
                continue
            for name, code in zip(pool.names, pool.codes.tolist(), strict=True):
                if code not in (HIGH, LOW):
                    continue
                usage, capacity = self._plain(name)
                named = sorted(thresholds.low)
                limits = {
                    resource: int(
                        float(thresholds.high.get(resource, 0)) * 0.01 * capacity[resource]
                    )
                    for resource in named
                }
                over = any(usage[resource] > limits[resource] for resource in named)
                # A low threshold without a high one lets a node be low and over at once.
                assert over or code == LOW, f"{name} is over nothing and {code}"
                assert not over or code == HIGH or set(thresholds.low) - set(thresholds.high)
        return answer

    def _plain(self, name: str) -> tuple[dict[str, int], dict[str, int]]:
        node = self.inventory.nodes[name]
        metric = node.usage.metric
        assert metric is not None
        index = self.balancer.columns.universe.index
        figures = self.balancer.columns.nodes[self.balancer.columns.row(name) or 0]
        usage = dict.fromkeys(index, 0)
        for resource in index:
            usage[resource] = metric.system_usage.get(resource, 0)
            usage[resource] += sum(pod.usage.get(resource, 0) for pod in metric.pods)
        before = self._count.get(name, len(node.held))
        usage["pods"] = before
        return usage, dict(zip(index, figures.capacity, strict=True))

    def _measure(self, metrics: list[Json]) -> None:
        super()._measure(metrics)
        self._count = {name: len(node.held) for name, node in self.inventory.nodes.items()}


@pytest.mark.parametrize("seed", range(_TESTS))
def test_rounds_go_on_from_rows_as_they_went_on_without(seed: int) -> None:
    answered = 0
    for name, events, args in crosses("lownodeload", seed):
        try:
            policy = lownodeload.policy_of(args)
        except PolicyError:
            continue
        running = list(Plain(policy, events).rounds())
        assert list(Restarting(policy, events).rounds()) == running, name
        answered += len(running)
    assert answered
