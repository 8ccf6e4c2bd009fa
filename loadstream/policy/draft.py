"""The command `policy init`: a first policy for a cluster, from its own history.

Exit codes: 0 there is a policy; 1 there is too little to go by, the file is there already, or the
broker is out of reach, and was reported; 2 the command line is wrong; 3 nothing has ever named the
cluster.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Json, cluster_name, length_ms
from loadstream.cli.command import as_messages, connect_as_configured
from loadstream.cli.files import write_new
from loadstream.cli.warnings import NOTHING_FOUND, warn_first
from schemas.base.printable import escape_yaml, to_one_line

if TYPE_CHECKING:
    from connectors.policies.draft.advice import Advice
    from connectors.policies.draft.summary import ClusterSummary


def init(
    cluster: Annotated[str, typer.Argument(help="Name of the cluster.", callback=cluster_name)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write it there; an existing file is not overwritten."),
    ] = None,
    back: Annotated[
        str, typer.Option(help="How far to look back from the newest metric: 2h, 1d.")
    ] = "1d",
    json: Json = False,
) -> None:
    """Print a first policy for a cluster, from its own history: each value with its reason.

    Thresholds come from what its nodes used, limits from its size. It is written for `policy apply`;
    this command does not apply it.
    """
    from connectors.policies.draft.advice import HISTORY_MS_MIN, advise, too_little
    from connectors.policies.draft.document import document
    from connectors.policies.draft.reading import read_history
    from connectors.policies.draft.summary import summarize

    back_ms = length_ms(back, "--back")
    if back_ms <= HISTORY_MS_MIN:  # what is found within it spans less
        raise typer.BadParameter(
            f"found {back}; expected more than 1h, such as 2h: less says little about a day",
            param_hint="--back",
        )
    with as_messages():
        connection = connect_as_configured()
        seen = warn_first(connection, cluster)
        history = read_history(connection, cluster, back_ms)
    summary = summarize(history) if history.readings else None
    lacking = too_little(summary)
    if summary is None or lacking is not None:
        echo(
            f"error: no policy for cluster {to_one_line(cluster)}: {lacking}. Let `loadstream worker` and a "
            "source of usage run (docs/reference/sources.md), look again, or begin with deploy/policies/observe.yaml",
            err=True,
        )
        raise typer.Exit(1 if seen else NOTHING_FOUND)
    advice = advise(summary)
    text = document(cluster, summary, advice)
    if output is not None:
        write_new(output, text)
    if json:
        print_json(_as_json(cluster, summary, advice, text))
    elif output is None:
        echo(escape_yaml(text), nl=False)
    else:
        echo(
            f"wrote {output}; next: loadstream policy check {output} --cluster {to_one_line(cluster)}"
        )


def _as_json(
    cluster: str, summary: "ClusterSummary", advice: "Advice", text: str
) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "cluster": cluster,
        "summary": asdict(summary),
        "values": [
            {"path": ".".join(each.path), "value": each.value, "reason": each.reason}
            for each in advice.values
        ],
        "left_out": list(advice.left_out),
        "policy": text,
    }
