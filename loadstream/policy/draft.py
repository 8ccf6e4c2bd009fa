"""The command `policy init`: a first policy for a cluster, based on its own history.

Exit codes: 0 a policy was written; 1 the history is too short, the file exists already, or the broker
is unavailable; 2 the command line is wrong; 3 no record names the cluster.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Json, check_cluster_name, parse_length_ms
from loadstream.cli.command import as_messages, connect_as_configured
from loadstream.cli.files import write_new
from loadstream.cli.warnings import NOTHING_FOUND, warn_about_cluster
from schemas.base.printable import escape_yaml, to_one_line


def init(
    cluster: Annotated[
        str, typer.Argument(help="Name of the cluster.", callback=check_cluster_name)
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the policy to this file, which must not exist."),
    ] = None,
    back: Annotated[
        str, typer.Option(help="How far to look back from the newest metric: 2h, 1d.")
    ] = "1d",
    json: Json = False,
) -> None:
    """Print a first policy for a cluster, based on its own history, with the reason of each value.

    Thresholds follow the usage of its nodes, limits follow its size. The policy is not applied.
    """
    from connectors.policies.draft.advice import HISTORY_MS_MIN, find_lack
    from connectors.policies.draft.document import document
    from connectors.policies.draft.reading import read_history

    back_ms = parse_length_ms(back, "--back")
    if back_ms <= HISTORY_MS_MIN:  # the first and last metric are less far apart
        raise typer.BadParameter(
            f"found {back}; expected more than 1h, such as 2h: less says little about a day",
            param_hint="--back",
        )
    with as_messages():
        connection = connect_as_configured()
        seen = warn_about_cluster(connection, cluster)
        history = read_history(connection, cluster, back_ms)
    lack = find_lack(history)
    if history is None or lack is not None:
        echo(
            f"error: no policy for cluster {to_one_line(cluster)}: {lack}. Let `loadstream worker` and a "
            "source of usage run (docs/reference/sources.md), then try again, or begin with deploy/policies/observe.yaml",
            err=True,
        )
        raise typer.Exit(1 if seen else NOTHING_FOUND)
    text = document(cluster, history)
    if output is not None:
        write_new(output, text)
    if json:
        print_json({"cluster": cluster, "history": asdict(history), "policy": text})
    elif output is None:
        echo(escape_yaml(text), nl=False)
    else:
        echo(
            f"wrote {output}; next: loadstream policy check {output} --cluster {to_one_line(cluster)}"
        )
