"""The command `loadstream simulate`: a simulated cluster for a real broker.

Exit codes: 1 the broker is out of reach or did not take a record; 2 an option is wrong; 0 SIGTERM
has stopped it, 130 Ctrl-C. Once a minute it prints on standard error what was done.
"""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo
from loadstream.arguments import as_field, number
from loadstream.command import command

if TYPE_CHECKING:
    from pydantic import BaseModel

    from connectors.kafka.wire import Wire
    from simulation.cluster.continuous import ContinuousSimulation

#: Time between two steps, in seconds.
_STEP_S = 0.2
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
        int, typer.Option(parser=number("nodes", 1, 1000), metavar="NODES", help="How many nodes.")
    ] = 40,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Draws another load.")] = 1,
    churn: Annotated[
        float,
        typer.Option(
            parser=number("times", 0.1, 100, whole=False),
            metavar="TIMES",
            help="Pods come and go this many times as fast as in traces.",
        ),
    ] = 12.0,
    period: Annotated[
        float,
        typer.Option(
            parser=number("seconds", 1, 600, whole=False),
            metavar="SECONDS",
            help="Time between two samples of a node.",
        ),
    ] = 15.0,
) -> None:
    """Simulate a cluster for the configured broker, at the pace of the clock, until Ctrl-C.

    Nodes report what they use, pods ask for nodes, placed pods run there, and evicted ones are
    replaced: a worker sees what it would see of a cluster. Its policy observes; with one that
    enforces, nodes that stay hot are relieved. A policy that the cluster has already stays. Topics
    must be there.
    """
    from loadstream.failures import as_messages

    with as_messages():
        from connectors.kafka.client import connect
        from connectors.kafka.extents import partitions_of
        from connectors.kafka.wire import Wire
        from connectors.policy.entries import newest_entry
        from connectors.process.signals import terminable
        from schemas.settings.connection import KafkaSettings
        from schemas.topics.partitions import partition_for
        from simulation.cluster.continuous import ContinuousSimulation

        kafka = KafkaSettings.from_environment()
        connection = connect(kafka)
        topics = ("placement-decisions", "eviction-commands", "clock")
        home = partition_for(cluster.encode(), partitions_of(connection, "clock"))
        with terminable(), Wire(kafka, topics, since="now") as wire:
            simulated = ContinuousSimulation(cluster, nodes, seed, churn, period, wire.send, home)
            is_new = newest_entry(connection, cluster) is None
            simulated.begin(wall_clock.now_ms(), with_policy=is_new)
            _run(simulated, wire)


def _run(simulated: "ContinuousSimulation", wire: "Wire") -> None:
    """Go on for ever."""
    reported_s = time.monotonic()
    while True:
        for answer, _ in wire.receive(_STEP_S):
            simulated.receive(answer, wall_clock.now_ms())
        simulated.advance(wall_clock.now_ms())
        if time.monotonic() - reported_s >= _REPORT_EVERY_S:
            reported_s = time.monotonic()
            done = simulated.totals
            echo(
                f"{simulated.name}: {done.samples} samples, {done.requests} requests, "
                f"{done.bound} bound, {simulated.waiting} waiting, {done.withdrawn} given up, "
                f"{done.failed} failed, {done.evicted} evicted, {done.dry} dry evictions",
                err=True,
            )
