"""The command `loadstream simulate`: a simulated cluster for a real broker.

Exit codes: 1 the broker is out of reach or did not take a record; 2 an option is wrong; 0 SIGTERM
has stopped it, 130 Ctrl-C. Once a minute it prints on standard error what was done.
"""

import time
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo
from loadstream.cli.arguments import as_field, number
from loadstream.cli.command import command

if TYPE_CHECKING:
    from pydantic import BaseModel

    from simulation.closed_loop.scenario import Scenario
    from simulation.closed_loop.stage_contender import StageContender

#: A cluster is drawn for this time; then another one begins under its name.
_HOURS = 12.0
#: Pods that run at the beginning come within half of this time.
_FILLING_HOURS = 0.1
#: Reason of the policy record that this command writes.
_POLICY_REASON = "policy of loadstream simulate"
#: What is older than this, because the process was asleep, is left out.
_BACKLOG_MAX_MS = 5 * 60_000
_REPORT_EVERY_S = 60.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "simulate --cluster try --nodes 40")(simulate)


def _state() -> "type[BaseModel]":
    from schemas.messages.nodes import NodeState

    return NodeState


def simulate(
    cluster: Annotated[
        str, typer.Option(callback=as_field(_state, "cluster"), help="Name of the cluster.")
    ] = "simulated",
    nodes: Annotated[
        int, typer.Option(parser=number("nodes", 2, 1000), metavar="NODES", help="How many nodes.")
    ] = 40,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Draws another load.")] = 1,
    churn: Annotated[
        float,
        typer.Option(
            parser=number("times", 0.1, 100, whole=False),
            metavar="TIMES",
            help="Pods come and go this many times as fast as in the closed loop.",
        ),
    ] = 12.0,
    period: Annotated[
        int,
        typer.Option(
            parser=number("seconds", 1, 600),
            metavar="SECONDS",
            help="Time between two samples of a node.",
        ),
    ] = 15,
) -> None:
    """Simulate a cluster for the configured broker, at the pace of the clock, until Ctrl-C.

    Nodes report what they use, pods ask for nodes, placed pods run there, and evicted ones are
    replaced: a worker sees what it would see of a cluster. Its policy observes; with one that
    enforces, nodes that stay hot are relieved. A policy that the cluster has already stays. Every
    twelve hours another cluster of that name begins. Topics must be there.
    """
    from loadstream.cli.command import as_messages

    with as_messages():
        from connectors.kafka.client import connect
        from connectors.policies.entries import newest_entry
        from connectors.process.signals import terminable
        from schemas.settings.connection import KafkaSettings
        from simulation.closed_loop.stage_contender import StageContender
        from simulation.worker_stages import LiveStages

        connection = connect(KafkaSettings.from_environment())
        policy: str | None = None
        if newest_entry(connection, cluster) is None:
            policy = files("simulation").joinpath("policy.yaml").read_text(encoding="utf-8")
        with terminable(), LiveStages(connection, cluster) as stages:
            while True:
                scenario = _draw(cluster, nodes, seed, churn, period)
                _run(scenario, StageContender(_POLICY_REASON, policy, lambda: stages))
                policy, seed = None, seed + 1


def _draw(cluster: str, nodes: int, seed: int, churn: float, period_s: int) -> "Scenario":
    from simulation.closed_loop.parameters import Parameters
    from simulation.closed_loop.scenario import draw_scenario
    from simulation.closed_loop.traces import model_traces

    parameters = Parameters(
        nodes=nodes,
        hours=_HOURS,
        filling_hours=_FILLING_HOURS,
        load=0.5,
        pod_divisor=1,
        life_median_hours=2.0 / churn,
        life_min_s=max(1, round(300 / churn)),
        sample_s=period_s,
        step_s=1,
    )
    begin_ms = wall_clock.now_ms()
    drawn = draw_scenario(parameters, seed, model_traces(), cluster, begin_ms)
    # Names of an earlier simulation of this cluster must not come again.
    plans = []
    for index, plan in enumerate(drawn.plans):
        name = f"pod-{begin_ms // 1000:x}-{index}"
        pod = plan.pod.model_copy(update={"name": name, "uid": name})
        plans.append(replace(plan, pod=pod))
    return replace(drawn, plans=tuple(plans))


def _run(scenario: "Scenario", contender: "StageContender") -> None:
    """Let the worker decide, at the pace of the clock, to the scenario's end."""
    from simulation.closed_loop.world import World

    world = World(scenario)
    contender.begin(world)
    reported_s = time.monotonic()
    for now_ms in range(scenario.begin_ms, scenario.end_ms, 1000):
        late_ms = wall_clock.now_ms() - now_ms
        if late_ms > _BACKLOG_MAX_MS:
            continue
        time.sleep(max(0.0, -late_ms / 1000))
        world.advance(now_ms)
        contender.step(now_ms)
        if time.monotonic() - reported_s >= _REPORT_EVERY_S:
            reported_s = time.monotonic()
            counts = ", ".join(f"{name} {count}" for name, count in contender.figures().items())
            echo(f"{scenario.cluster}: {counts}, waiting {len(world.cluster.asking)}", err=True)
