"""The command `loadstream simulate`: a simulated cluster for a real broker.

Exit codes: 0 SIGTERM; 130 Ctrl-C; 1 the broker is unavailable or refused a record; 2 an option is wrong.
Once a minute the command prints its counts on standard error.
"""

import time
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo
from loadstream.cli.arguments import ClusterOption
from loadstream.cli.command import command

if TYPE_CHECKING:
    from simulation.closed_loop.scenario import Scenario
    from simulation.closed_loop.stage_contender import StageContender

#: Hours of one simulated cluster; then another cluster begins under the same name.
_HOURS = 12.0
#: The first pods start within half of this time.
_FILLING_HOURS = 0.1
#: Reason of the policy record that this command writes.
_POLICY_REASON = "policy of loadstream simulate"
#: Steps that are later than this are skipped, for example after the process was suspended.
_BACKLOG_MAX_MS = 5 * 60_000
_REPORT_EVERY_S = 60.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "simulate --cluster try --nodes 40")(simulate)


def simulate(
    cluster: ClusterOption = "simulated",
    nodes: Annotated[int, typer.Option(min=2, max=1000, help="Number of nodes.")] = 40,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of the load.")] = 1,
    churn: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=100,
            help="Rate at which pods start and end, relative to the closed loop.",
        ),
    ] = 12.0,
    period: Annotated[
        int,
        typer.Option(min=1, max=600, help="Time between two samples of a node, in seconds."),
    ] = 15,
) -> None:
    """Simulate a cluster for the configured broker in real time, until Ctrl-C.

    Nodes report usage, pods request nodes, placed pods run, and evicted pods are replaced. The cluster gets
    a policy that observes, unless it has a policy; a policy that enforces relieves nodes that stay hot.
    Every twelve hours another cluster begins under the same name. The topics must exist.
    """
    from loadstream.cli.command import as_messages

    with as_messages():
        from connectors.kafka.client import connect
        from connectors.policies.entries import find_newest_entry
        from connectors.process.signals import terminable
        from schemas.settings.connection import KafkaSettings
        from simulation.closed_loop.stage_contender import StageContender
        from simulation.worker_stages import LiveStages

        connection = connect(KafkaSettings.from_environment())
        policy: str | None = None
        if find_newest_entry(connection, cluster) is None:
            policy = files("simulation").joinpath("policy.yaml").read_text(encoding="utf-8")
        with terminable(), LiveStages(connection, cluster) as stages:
            while True:
                scenario = _draw(cluster, nodes, seed, churn, period)
                _run(scenario, StageContender(_POLICY_REASON, policy, stages))
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
    scenario = draw_scenario(parameters, seed, model_traces(), cluster, begin_ms)
    # Names must differ from those of earlier simulations of this cluster.
    plans = []
    for index, plan in enumerate(scenario.plans):
        name = f"pod-{begin_ms // 1000:x}-{index}"
        pod = plan.pod.model_copy(update={"name": name, "uid": name})
        plans.append(replace(plan, pod=pod))
    return replace(scenario, plans=tuple(plans))


def _run(scenario: "Scenario", contender: "StageContender") -> None:
    """Run a scenario in real time, with decisions of the worker."""
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
            counts = ", ".join(f"{name} {count}" for name, count in contender.get_counts().items())
            echo(
                f"{scenario.cluster}: {counts}, waiting {len(world.cluster.waiting_pods)}", err=True
            )
