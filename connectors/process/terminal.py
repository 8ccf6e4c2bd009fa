"""Print only printable text, whatever names, keys and values contain.

All commands print with `echo`; a test enforces that. The demo, which draws with rich, cleans foreign
text itself and does not interpret it as markup.
"""

from typing import Any

import typer

from schemas.base.printable import escape_json, replace_unprintable


def echo(text: Any = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text without control characters."""
    typer.echo(replace_unprintable(str(text)), err=err, nl=nl)


def print_json(value: Any) -> None:
    import orjson

    echo(escape_json(orjson.dumps(value)))
