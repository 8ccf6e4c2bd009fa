"""The command group `cluster`: `why-not`, `pause` and `resume`.

Exit codes: 0 done, or there is an answer; 1 the record was refused, or the broker is unavailable; 2 the
command line is wrong; 3 no record names the cluster, node or pod.
"""

from typing import Annotated

import typer

from connectors.policies.entries import find_newest_entry, is_set_apart
from connectors.process import wall_clock
from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import (
    Cluster,
    Json,
    check_node_name,
    parse_length_ms,
    parse_object_name,
)
from loadstream.cli.command import NOTHING_FOUND, as_messages, command, connect_as_configured
from loadstream.policy.records import (
    By,
    New,
    Reason,
    Wait,
    require_cluster,
    wait_until_applied,
    write_record,
)
from schemas.base.printable import to_one_line

app = typer.Typer(
    name="cluster",
    no_args_is_help=True,
    help="Pause and resume a cluster, explain why no pod was evicted.",
)


@command(app, "cluster why-not prod-eu-1 --node node-17", name="why-not")
def why_not(
    cluster: Cluster,
    node: Annotated[
        str | None, typer.Option(help="Ask about this node.", callback=check_node_name)
    ] = None,
    pod: Annotated[str | None, typer.Option(help="Ask about this pod: NAMESPACE/NAME.")] = None,
    back: Annotated[
        str, typer.Option(help="How far to look back from the newest round: 10m, 1h, 2d.")
    ] = "1h",
    json: Json = False,
) -> None:
    """Explain why no pod was evicted from a cluster or node, or why a pod was not evicted.

    The answer is based on the records of the newest rounds: the usage of nodes, the pods that should
    leave, and the first gate that stopped each hot node and pod, with numbers.
    """
    if node is not None and pod is not None:
        raise typer.BadParameter("found --node and --pod; expected at most one of them")
    pod_name = None if pod is None else parse_object_name(pod, "--pod")
    back_ms = parse_length_ms(back, "--back")
    with as_messages():
        from connectors.queries.whynot.cluster import explain_cluster
        from connectors.queries.whynot.evidence import Answer
        from connectors.queries.whynot.node import explain_node
        from connectors.queries.whynot.pod import explain_pod
        from connectors.queries.whynot.reading import read_evidence

        evidence = read_evidence(
            connect_as_configured(), cluster, wall_clock.now_ms(), node=node, pod=pod_name, back_ms=back_ms
        )  # fmt: skip
    if evidence.unknown_cluster and not evidence.rounds:
        answer = Answer((), is_known=False, data={})
    elif node is not None:
        answer = explain_node(evidence, node)
    elif pod_name is not None:
        answer = explain_pod(evidence, *pod_name)
    else:
        answer = explain_cluster(evidence)
    if json:
        summary = {
            "cluster": cluster,
            "node": node,
            "pod": pod,
            "known": answer.is_known,
            "answer": answer.sentences,
            "warnings": list(evidence.warnings()),
            "now_ms": evidence.now_ms,
            "clock_ms": evidence.tick_ms,
            "paused": evidence.paused,
            "rounds_read": len(evidence.rounds),
        }
        print_json({**answer.data, **summary})
    else:
        for sentence in (*evidence.warnings(), *answer.sentences):
            echo(to_one_line(sentence))
    if not answer.is_known:
        raise typer.Exit(NOTHING_FOUND)


@command(
    app,
    "cluster resume prod-eu-1",
    name="resume",
    text="Resume a paused cluster, or retry one that was set apart after internal errors.",
)
@command(
    app,
    'cluster pause prod-eu-1 --reason "incident 4711"',
    name="pause",
    text="Stop all placements and evictions of a cluster; pending pods wait. The policy stays the same.",
)
def switch(
    context: typer.Context,
    cluster: Cluster,
    reason: Reason = "",
    by: By = "",
    wait: Wait = False,
    new: New = False,
    json: Json = False,
) -> None:
    """Write the newest document again, paused or running.

    Nothing is written if the cluster already has this state. An exception is a cluster that was set apart:
    any new record brings it back.
    """
    paused = context.info_name == "pause"
    state = "paused" if paused else "running"
    with as_messages():
        connection = connect_as_configured()
        require_cluster(connection, cluster, new=new, wait=wait)
        newest = find_newest_entry(connection, cluster)
        # A cluster without a policy has the default policy, whose document is empty.
        was_paused = newest is not None and newest.record.paused
        is_retry = not (was_paused or paused) and is_set_apart(connection, cluster)
        if was_paused is paused and not is_retry:
            if wait and newest is not None:
                wait_until_applied(connection, newest.partition, newest.offset)
            if json:
                print_json(
                    {"cluster": cluster, "paused": paused, "written": False, "applied": wait}
                )
            else:
                echo(f"cluster {cluster} is already {state}; nothing was written")
            return
        document = newest.record.document if newest is not None else ""
        write_record(connection, cluster, document, paused=paused, reason=reason, by=by, wait=wait)
    if json:
        print_json({"cluster": cluster, "paused": paused, "written": True, "applied": wait})
    else:
        retry = "; it was set apart after errors and is tried again" if is_retry else ""
        echo(f"cluster {cluster} is {state}{retry}")
