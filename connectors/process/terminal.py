"""How commands print: nothing but printable text reaches a terminal, whatever is in names, keys and
values.

All commands print with `echo`, and a test holds them to that; the demo, which draws with rich,
makes text of others printable before it is drawn and never reads it as markup.
"""

from typing import Any

import typer

from schemas.base.printable import json_text, printable


def echo(text: Any = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text, made printable."""
    typer.echo(printable(str(text)), err=err, nl=nl)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    import orjson

    echo(json_text(orjson.dumps(value)))
