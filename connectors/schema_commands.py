"""The command group `schemas`: the published documents of all topics and tables."""

from pathlib import Path
from typing import Annotated

import typer

from connectors.terminal import echo, print_json

app = typer.Typer(no_args_is_help=True, help="The published schemas of all topics and tables.")


@app.callback()
def _group() -> None:
    """Keeps `export` a command of its own although it is the only one."""


@app.command()
def export(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if a file would change.")
    ] = False,
    directory: Annotated[
        Path | None, typer.Option(help="Write here instead of where they are checked in.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Write a JSON Schema per topic and table, and one AsyncAPI document of all topics."""
    from schemas.export import PUBLISHED, differences, documents, write

    place = directory or PUBLISHED
    changed = differences(place) if check else write(place)
    if json:
        key = "differing" if check else "written"
        print_json({"directory": str(place), "documents": len(documents()), key: list(changed)})
        raise typer.Exit(1 if check and changed else 0)
    for name in changed:
        echo(f"{'differs' if check else 'wrote'}: {place / name}")
    if not check:
        echo(f"{len(documents())} documents in {place}, {len(changed)} of them changed")
    elif changed:
        echo("run `loadstream schemas export` and check the result in", err=True)
        raise typer.Exit(1)
    else:
        echo(f"{len(documents())} documents in {place} are as the code says")
