"""The `loadstream` command: puts the command groups of connectors and streams together.

Nothing heavy is imported here. Each command imports what it needs when it runs, so that
`loadstream --help` answers at once and a broken optional part breaks only its own command.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from connectors import schema_commands
from connectors.brokers import commands as broker_commands
from connectors.closed_loop import commands as closed_loop_commands
from connectors.demo import commands as demo_commands
from connectors.kafka import commands as kafka_commands
from connectors.kubernetes import commands as kubernetes_commands
from connectors.migration_commands import commands as migration_commands
from connectors.node_agent import commands as agent_commands
from connectors.policy import commands as policy_commands
from connectors.simulated import commands as simulated_commands
from connectors.terminal import echo
from connectors.whynot import commands as why_not_commands
from streams import cli as streams_commands

if TYPE_CHECKING:
    from connectors.closed_loop.stages import MakeStages

app = typer.Typer(
    name="loadstream",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
broker_commands.register(app)
kafka_commands.register(app)
app.add_typer(policy_commands.app, name="policy")
why_not_commands.register(app)
migration_commands.register(app)
app.add_typer(schema_commands.app, name="schemas")
streams_commands.register(app)
app.add_typer(kubernetes_commands.app, name="kubernetes")
simulated_commands.register(app)
agent_commands.register(app)


def _stages() -> "MakeStages":
    from streams.in_process.pipeline import Pipeline

    return Pipeline


demo_commands.register(app, _stages)
closed_loop_commands.register(app, _stages)


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
    app()
