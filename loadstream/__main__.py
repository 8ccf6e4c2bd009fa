"""The `loadstream` command: puts all command groups together.

Nothing heavy is imported here. Each command imports what it needs when it runs, so that
`loadstream --help` answers at once and a broken optional part breaks only its own command.
"""

from typing import Annotated

import typer

from connectors.process.terminal import echo
from loadstream import (
    agent,
    broker,
    closed_loop,
    demo,
    kafka_topics,
    kubernetes,
    migrations,
    partitions,
    policy,
    replay,
    schema_export,
    simulate,
    tail,
    why_not,
    worker,
)

app = typer.Typer(
    name="loadstream",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
broker.register(app)
kafka_topics.register(app)
app.add_typer(partitions.partition, name="partition")
app.command()(tail.tail)
app.add_typer(policy.app, name="policy")
why_not.register(app)
migrations.register(app)
app.add_typer(schema_export.app, name="schemas")
worker.register(app)
replay.register(app)
app.add_typer(kubernetes.app, name="kubernetes")
simulate.register(app)
agent.register(app)


demo.register(app)
closed_loop.register(app)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        echo(f"loadstream {version('loadstream')}")
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


def main() -> None:
    """Run the command line."""
    app(prog_name="loadstream")


if __name__ == "__main__":
    main()
