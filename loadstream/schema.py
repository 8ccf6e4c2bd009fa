"""The command `schema export`: the published documents of all topics and tables.

Exit codes: 1 a document differs (`--check`), or cannot be read or written; 2 the command line is
wrong.
"""

from pathlib import Path
from typing import Annotated

import typer

from connectors.process.terminal import echo, print_json
from loadstream.cli.arguments import Json
from loadstream.cli.command import command

app = typer.Typer(
    name="schema", no_args_is_help=True, help="The published schemas of all topics and tables."
)


@app.callback()
def _group() -> None:
    """Keep `schema` a group: Typer would merge a group with its only command."""


@command(app, "schema export --check", kafka=False)
def export(
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; the exit code is 1 if a file would change."),
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option(help="Write to this directory instead; other files in it stay."),
    ] = None,
    json: Json = False,
) -> None:
    """Write a JSON Schema per topic and table, and one AsyncAPI document of all topics."""
    from schemas.publish.export import PUBLISHED, differences, documents, write

    target = directory or PUBLISHED
    try:
        changed = differences(target) if check else write(target)
    except OSError as error:
        action = "read" if check else "written"
        echo(f"error: {error.filename or target} cannot be {action}: {error.strerror}", err=True)
        raise typer.Exit(1) from None
    removed = [] if check else [name for name in changed if name not in documents()]
    written = [name for name in changed if name not in removed]
    if json:
        names = {"differing": changed} if check else {"written": written, "removed": removed}
        print_json({"directory": str(target), "documents": len(documents()), **names})
        raise typer.Exit(1 if check and changed else 0)
    for name in written:
        echo(f"{'differs' if check else 'wrote'}: {target / name}")
    for name in removed:
        echo(f"removed: {target / name}")
    if not check:
        echo(f"{len(documents())} documents in {target}, {len(written)} of them changed")
    elif changed:
        echo("run `loadstream schema export` and commit the result", err=True)
        raise typer.Exit(1)
    else:
        echo(f"{len(documents())} documents in {target} are up to date")
