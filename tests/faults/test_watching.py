"""What must hold of decisions and commands: each rule is broken on purpose, and that is found."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from schemas.decisions import PlacementDecision
from schemas.migrations import MigrationRow
from schemas.policy import Policy
from schemas.refusals import Refusal
from simulation.cluster.sink import SimulatedSink
from streams.cluster.state import ClusterState
from streams.inventory.inventory import Inventory
from streams.migration.concurrency_limits import Limits
from streams.migration.execution import Execution
from streams.migration.migrations import Migrations
from streams.migration.token_bucket import rate_per_second
from streams.placement.placement import Placement
from tests.faults.life import live
from tests.faults.policies import DOCUMENTS
from tests.faults.trace import Fault, Trace

pytestmark = pytest.mark.slow

#: Commands stay alive for long.
_LAGS = Fault(0, "sink lags", 400, 400)
_PAUSED = Fault(1, "cluster is paused", 500, 300)


def found(policy: str, *faults: Fault, **fields: Any) -> str:
    """How a small trace with these faults fails."""
    given = {"seed": 2, "nodes": 6, "length_s": 1200, "load": 0.7, "fill": 0.7, **fields}
    failure = live(Trace(policy=policy, faults=faults, **given)).failure
    return "" if failure is None else failure.kind


@contextmanager
def _going_on(inventory: Inventory) -> Iterator[None]:
    """As if the cluster were not paused."""
    right = inventory.context
    inventory.context = replace(right, paused=False)
    try:
        yield
    finally:
        inventory.context = right


@pytest.fixture
def no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands leave as fast as they are wanted."""
    name = "streams.migration.rate_limits.rate_per_second"
    monkeypatch.setattr(name, lambda tokens, burst: rate_per_second(1000.0, 1000))


@pytest.mark.usefixtures("no_rate")
@pytest.mark.parametrize(
    "name",
    [
        "maxMigratingGlobally",
        "maxMigratingPerNode",
        "maxMigratingPerNamespace",
        "maxMigratingPerWorkload",
    ],
)
def test_each_limit_that_is_ignored_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    limits = {
        "maxMigratingPerNode": 1000,
        "maxMigratingPerWorkload": "100%",
        "maxUnavailablePerWorkload": "100%",
        name: 1,
    }
    section, _, _ = DOCUMENTS["limited"].partition("\nmigration:")
    lines = [f"  {argument}: {most}" for argument, most in limits.items()]
    text = "\n".join(
        (section, "migration:", "  schedulerNames: [loadstream]",
         "  skipCheckExpectedReplicas: true", "  objectLimiters: {workload: {duration: 0s}}", *lines, "")
    )  # fmt: skip
    monkeypatch.setitem(DOCUMENTS, "one limit", text)
    assert found("one limit", _LAGS) == ""
    monkeypatch.setattr(Limits, "gate", lambda self, *args, **named: None)
    assert found("one limit", _LAGS) == f"{name} is exceeded"


def test_a_placement_in_a_paused_cluster_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterState, "_judge_paused", lambda self: None)
    assert found("defaults", _PAUSED) == "a pod is placed while the cluster is paused"


def test_a_command_in_a_paused_cluster_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Migrations that wait for their turn go on."""
    right = Migrations.tick

    def goes_on(self: Migrations, *args: Any, **named: Any) -> None:
        with _going_on(self.lifecycle.inventory):
            right(self, *args, **named)

    monkeypatch.setattr(Migrations, "tick", goes_on)
    assert found("slow", _PAUSED) == "a command is given while the cluster is paused"


def test_a_command_that_is_carried_out_while_the_cluster_observes_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Policy, "dry_for", lambda self, trigger: False)
    assert found("observe") == "a command is not dry while the cluster observes"


def test_two_commands_for_one_pod_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is out is forgotten at once."""
    right = Execution._command

    def forgets(self: Execution, row: MigrationRow, *args: Any) -> None:
        right(self, row, *args)
        registry = self.lifecycle.registry
        out = registry.get(row.migration_id)
        assert out is not None
        registry.put(out.model_copy(update={"command_expires_at_ms": None}))

    monkeypatch.setattr(Execution, "_command", forgets)
    expected = "a pod is commanded while a command for it is alive"
    assert found("direct", _LAGS) == expected


def test_a_pod_that_is_bound_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that comes again is decided again, and the sink does not look at the pod."""
    right = SimulatedSink.bind

    async def again(self: SimulatedSink, decision: PlacementDecision) -> Any:
        answer = await right(self, decision)
        return answer if decision.outcome != "placed" else type(answer)("done")

    monkeypatch.setattr(SimulatedSink, "bind", again)
    monkeypatch.setattr(Inventory, "held", lambda self, uid: None)
    monkeypatch.setattr("tests.faults.watching.Watching._holds", lambda *given: False)
    twice = Fault(0, "records come twice", 0, 600, 0.5)
    assert found("moves", twice, length_s=700) == "a pod is bound twice"


def test_a_record_that_is_refused_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of no known kind, and none is written here."""
    right = Placement.request

    def refuses(self: Placement, *args: Any, **named: Any) -> Any:
        if len(self.inventory.where) > 10:
            return Refusal("invalid", "not understood")
        return right(self, *args, **named)

    monkeypatch.setattr(Placement, "request", refuses)
    assert found("defaults", length_s=700) == "a record is refused"
