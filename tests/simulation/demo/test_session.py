"""A whole run against the real stages, in memory: the loop is closed and the counts are right."""

from collections import Counter

import pytest

from schemas.messages.decisions import AsOf, PlacementDecision
from schemas.messages.pods import PodLifecycle, PodRef
from simulation.demo.scenario import CLUSTER, simulated_scenario
from simulation.demo.session import Session
from tests.simulation.demo.inmemory import InMemoryWorker
from tests.simulation.demo.test_relief import a_command


def test_every_request_is_answered_and_nothing_is_refused(finished: Session) -> None:
    observed = finished.observed
    assert finished.over
    assert finished.arrived == len(finished.scenario.plans) > 40
    assert finished.requests == finished.arrived + len(finished.replaced)
    assert observed.unanswered == 0
    assert observed.dead_letters == []
    assert finished.failures == []
    assert observed.unknown_nodes == []
    placed = sum(1 for _ in observed.of_outcome("placed"))
    assert placed > 0.8 * finished.requests
    assert len(finished.placed_at_ms) == placed


def test_a_placed_pod_is_bound_where_it_was_placed_and_confirmed_once(
    worker: InMemoryWorker,
) -> None:
    bound = {
        m.pod.uid: m.pod.node
        for m in worker.sent["pod-lifecycle"]
        if isinstance(m, PodLifecycle) and m.event == "bound"
    }
    decided = {d.pod.uid: d.node for d in worker.session.observed.of_outcome("placed")}
    assert bound == decided
    bindings = [each for each in worker.sent["command-outcomes"] if each.command == "bind"]
    assert Counter(outcome.result for outcome in bindings) == {"done": len(bound)}


def test_usage_follows_placements(worker: InMemoryWorker) -> None:
    placed = {d.pod.uid: d.node for d in worker.session.observed.of_outcome("placed")}
    seen = {
        (pod.uid, sample.node)
        for sample in worker.sent["node-usage"]
        for pod in sample.pods
        if pod.uid in placed
    }
    assert seen
    assert all(placed[uid] == node for uid, node in seen)
    # A pod placed well before the end has been measured.
    early = [
        d.pod.uid
        for d in worker.session.observed.of_outcome("placed")
        if d.decided_at_ms < worker.session.scenario.end_ms - 1_800_000
    ]
    assert set(early) <= {uid for uid, _ in seen}


def test_no_pod_goes_to_a_machine_that_stays_hot(finished: Session) -> None:
    hot = {m.name for m in finished.scenario.machines if m.temper == "hot"}
    assert hot
    assert hot <= {spell.node for spell in finished.relief.spells}
    first_act = [
        decision
        for decision in finished.observed.of_outcome("placed")
        if decision.decided_at_ms < finished.scenario.enforce_ms
    ]
    assert len(first_act) > 10
    assert not hot & {decision.node for decision in first_act}


def test_machines_that_stay_hot_are_relieved_in_the_second_act(
    worker: InMemoryWorker, finished: Session
) -> None:
    began_ms = finished.enforced_ms
    assert began_ms is not None
    results = [
        (each.happened_at_ms >= began_ms, each.result)
        for each in worker.sent["command-outcomes"]
        if each.command == "evict"
    ]
    assert {result for second, result in results if not second} == {"dry"}
    assert (True, "done") in results
    assert all(eviction.at_ms >= began_ms for eviction in finished.evictions)
    hot = {m.name for m in finished.scenario.machines if m.temper == "hot"}
    assert hot & {eviction.node for eviction in finished.evictions}
    long_ms = 60 * 60_000
    assert not {
        node
        for node, spell in finished.relief.hot.items()
        if node in hot and finished.now_ms - spell.since_ms > long_ms
    }
    assert finished.repeated == []


def test_pods_end_and_their_ends_are_reported(worker: InMemoryWorker) -> None:
    events = Counter(m.event for m in worker.sent["pod-lifecycle"] if isinstance(m, PodLifecycle))
    assert events["seen"] == sum(len(m.residents) for m in worker.session.scenario.machines)
    assert events["bound"] >= events["running"] > 0
    assert events["deleted"] > 0
    assert events["finished"] > 0
    machines = worker.session.scenario.machines
    live = sum(worker.session.cluster.kubelets.live_pods(machine.name) for machine in machines)
    assert live - events["seen"] < len(worker.session.placed_at_ms)


def test_the_clock_goes_first_so_that_no_sample_comes_from_the_future() -> None:
    order: list[tuple[str, int]] = []

    def send(topic: str, message: object) -> None:
        at = getattr(message, "now_ms", None) or getattr(message, "sampled_at_ms", None)
        if at is not None:
            order.append((topic, at))

    scenario = simulated_scenario(3, 1, 4)
    session = Session(scenario, send, 0)
    session.begin()
    for _ in range(20):
        session.advance(session.now_ms + 100_000)
    now_ms = 0
    for topic, at_ms in order:
        if topic == "clock":
            now_ms = at_ms
        assert at_ms <= now_ms


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    def decisions(seed: int) -> list[tuple[str, str, str | None]]:
        worker = InMemoryWorker(simulated_scenario(5, seed, 4))
        session = worker.run(worker.session.scenario.begin_ms + 2 * 3_600_000)
        return [(d.decision_id, d.outcome, d.node) for d in session.observed.outcomes.values()]

    one = decisions(1)
    assert one
    assert decisions(1) == one
    assert decisions(2) != one


def test_readings_are_sent_once_each_and_in_order(worker: InMemoryWorker) -> None:
    times = [sample.sampled_at_ms for sample in worker.sent["node-usage"]]
    assert times == worker.session.scenario.readings.at_ms.tolist()
    assert worker.session.samples == len(times)


def _decision(uid: str, node: str | None, number: int = 1) -> PlacementDecision:
    return PlacementDecision(
        decision_id=f"decision-{number}",
        cluster=CLUSTER,
        pod=PodRef(namespace="demo", name=uid, uid=uid),
        outcome="placed",
        node=node,
        decided_at_ms=1_772_409_600_000,
        as_of=AsOf(partition=0, offsets={}, policy_digest="default"),
    )


@pytest.mark.parametrize("known", [True, False])
def test_a_placement_that_cannot_be_carried_out_is_noticed_and_reported(known: bool) -> None:
    sent: list[tuple[str, object]] = []
    scenario = simulated_scenario(3, 1, 4)
    session = Session(scenario, lambda topic, message: sent.append((topic, message)), 0)
    session.begin()
    session.advance(scenario.begin_ms + 3_600_000)
    uid = scenario.plans[0].pod.uid if known else "somebody-else"
    session.receive(_decision(uid, "node-99"))
    assert session.placed_at_ms == []
    outcomes = [message for topic, message in sent if topic == "command-outcomes"]
    assert [getattr(outcome, "result", None) for outcome in outcomes] == ["failed"]
    assert session.failures == outcomes


def test_a_pod_that_is_placed_twice_is_noticed() -> None:
    scenario = simulated_scenario(3, 1, 4)
    session = Session(scenario, lambda topic, message: None, 0)
    session.begin()
    session.advance(scenario.begin_ms + 3_600_000)
    small = min(scenario.plans[: session.requests], key=lambda plan: sum(plan.requests.values()))
    for number in (1, 1, 2):
        session.receive(_decision(small.pod.uid, scenario.machines[0].name, number))
    assert len(session.placed_at_ms) == 1
    (failure,) = session.failures
    assert "already" in failure.reason


def test_an_eviction_that_is_commanded_twice_is_noticed() -> None:
    scenario = simulated_scenario(3, 1, 4)
    session = Session(scenario, lambda topic, message: None, 0)
    session.begin()
    machine = scenario.machines[0]
    uid = machine.residents[0].pod.uid
    commands = [a_command(number, uid, machine.name, session.now_ms) for number in (1, 1, 2)]
    for command in commands:
        session.receive(command)
    assert [eviction.pod.uid for eviction in session.evictions] == [uid]
    assert session.repeated == commands[1:]
