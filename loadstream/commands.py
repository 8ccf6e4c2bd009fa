"""All commands of `loadstream`, by groups: a noun, then a verb. `status`, `doctor`, `version`,
long-running programs and simulations belong to no group.

Nothing heavy is imported here. Each command imports what it needs when it runs, so that
`loadstream --help` answers at once and a broken optional part breaks only its own command.
"""

import os
from typing import Annotated

import typer

from connectors.process.terminal import echo, print_json
from loadstream import (
    agent,
    broker,
    closed_loop,
    cluster,
    demo,
    kubernetes,
    node,
    replay,
    schema,
    simulate,
    status,
    worker,
)
from loadstream.cli.arguments import Json
from loadstream.cli.command import EXIT_CODES, command
from loadstream.doctor import command as doctor
from loadstream.migration import commands as migration
from loadstream.partition import commands as partition
from loadstream.policy import commands as policy
from loadstream.topic import commands as topic

app = typer.Typer(
    name="loadstream",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog="Exit codes:\n" + "".join(f"\n- {code}: {text}" for code, text in EXIT_CODES.items()),
)
for group in (cluster, node, migration, policy, topic, partition, replay, kubernetes, schema):
    app.add_typer(group.app)
for program in (status, doctor, worker, agent, broker, simulate, demo, closed_loop):
    program.register(app)


@command(app, "version", name="version", kafka=False)
def print_version(json: Json = False) -> None:
    """Show the version, and the commit if it was built into the image."""
    from importlib.metadata import version

    number, commit = version("loadstream"), os.environ.get("LOADSTREAM_COMMIT")
    if json:
        print_json({"version": number, "commit": commit})
    else:
        echo(f"loadstream {number}" + (f" (commit {commit})" if commit else ""))


def _print_version(is_given: bool) -> None:
    if is_given:
        print_version()
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_print_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    """Keeps the real load of Kubernetes clusters even, from a stream of metric events."""
