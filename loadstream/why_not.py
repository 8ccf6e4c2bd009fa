"""The command `loadstream why-not`: why nothing was evicted.

Exit codes: 0 there is an answer; 1 nothing is known of what was asked, or the broker is out of
reach, and was reported; 2 the command line is wrong.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.process import wall_clock
from connectors.process.terminal import echo
from loadstream.arguments import cluster_name, length_ms, node_name, pod_name
from loadstream.failures import as_messages, connect_as_configured
from schemas.base.printable import json_text, one_line

if TYPE_CHECKING:
    from connectors.whynot.evidence import Answer, Evidence
    from connectors.whynot.reading import Question


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="why-not")(why_not)


def why_not(
    cluster: Annotated[str, typer.Argument(help="Name of the cluster.", callback=cluster_name)],
    node: Annotated[
        str | None, typer.Option(help="Ask about this node.", callback=node_name)
    ] = None,
    pod: Annotated[str | None, typer.Option(help="Ask about this pod: NAMESPACE/NAME.")] = None,
    back: Annotated[
        str, typer.Option(help="How far to look back from the newest round: 10m, 1h, 2d.")
    ] = "1h",
    json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")] = False,
) -> None:
    """Say why nothing was evicted from a cluster or a node, or why a pod was not evicted.

    The answer comes from the records of the newest rounds: what they saw, what was to leave, and
    the first gate that stopped each hot node and pod, with numbers.
    """
    question = _question(cluster, node, pod, back)
    with as_messages():
        from connectors.whynot.reading import read_evidence

        evidence = read_evidence(connect_as_configured(), question, wall_clock.now_ms())
    answer = _answer(evidence, question)
    if json:
        echo(json_text(_as_json(answer, evidence, question)))
    else:
        for sentence in (*evidence.warnings(), *answer.sentences):
            echo(one_line(sentence))
    if not answer.known:
        raise typer.Exit(1)


def _question(cluster: str, node: str | None, pod: str | None, back: str) -> "Question":
    from connectors.whynot.reading import Question

    if node is not None and pod is not None:
        raise typer.BadParameter("ask about a node or about a pod, not about both at once")
    named = None if pod is None else pod_name(pod, "--pod")
    return Question(cluster, node, named, length_ms(back, "--back"))


def _answer(evidence: "Evidence", question: "Question") -> "Answer":
    from connectors.whynot.cluster import about_cluster
    from connectors.whynot.node import about_node
    from connectors.whynot.pod import about_pod

    if question.node is not None:
        return about_node(evidence, question.node)
    if question.pod is not None:
        return about_pod(evidence, *question.pod)
    return about_cluster(evidence)


def _as_json(answer: "Answer", evidence: "Evidence", question: "Question") -> str:
    import orjson

    whole: dict[str, Any] = {
        "cluster": evidence.cluster,
        "node": question.node,
        "pod": "/".join(question.pod) if question.pod else None,
        "known": answer.known,
        "answer": list(answer.sentences),
        "warnings": list(evidence.warnings()),
        "now_ms": evidence.now_ms,
        "clock_ms": evidence.tick_ms,
        "paused": evidence.paused,
        "rounds_read": len(evidence.rounds),
    }
    return orjson.dumps({**answer.data, **whole}, option=orjson.OPT_INDENT_2).decode()
