"""The command `loadstream profile`: what pods are expected to use of their requests.

Exit codes: 0 there is an answer; 1 nothing is known of what was asked, or the broker is out of
reach, and was reported; 2 the command line is wrong.
"""

from typing import Annotated

import typer

from connectors import wall_clock
from connectors.arguments import cluster_name
from connectors.kafka.failures import as_messages, connect_as_configured
from connectors.terminal import echo, print_json
from schemas.printable import one_line


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="profile")(profile)


def profile(
    cluster: Annotated[str, typer.Argument(help="Name of the cluster.", callback=cluster_name)],
    owner: Annotated[
        str | None,
        typer.Argument(help="An owner: NAME, NAMESPACE/NAME, or with KIND/ before NAME."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")] = False,
) -> None:
    """Print what pods of a cluster, or of one owner, are expected to use of their requests.

    It is learned from pods that were measured, if the policy enables OverutilizationRisk or its
    `loadAware.estimateBy` is not `requests`; by owner if that or `profiles` is `owner`.
    """
    with as_messages():
        from connectors.profiles.reading import read_profiles

        profiles = read_profiles(connect_as_configured(), cluster, wall_clock.now_ms())
    from connectors.profiles.report import document, known, sentences

    if json:
        print_json(document(profiles, owner))
    else:
        for sentence in (*profiles.warnings, *sentences(profiles, owner)):
            echo(one_line(sentence))
    if not known(profiles, owner):
        raise typer.Exit(1)
