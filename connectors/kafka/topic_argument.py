"""Names of topics as arguments of commands."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from schemas.topics import Topic


def topic_names() -> list[str]:
    """For the completion of shells."""
    from schemas.topics import TOPIC_BY_NAME

    return list(TOPIC_BY_NAME)


def topic_of(name: str) -> "Topic":
    from difflib import get_close_matches

    from schemas.topics import TOPIC_BY_NAME

    if name not in TOPIC_BY_NAME:
        close = get_close_matches(name, TOPIC_BY_NAME, n=1)
        hint = (
            f"did you mean {close[0]}?" if close else f"expected one of {', '.join(TOPIC_BY_NAME)}"
        )
        raise typer.BadParameter(f"there is no topic {name!r}; {hint}", param_hint="TOPIC")
    return TOPIC_BY_NAME[name]
