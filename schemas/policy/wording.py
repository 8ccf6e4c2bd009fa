"""Describe values in messages, and suggest similar names."""

import difflib
import json
from collections.abc import Iterable
from typing import Any

_FOUND_CHARACTERS_MAX = 80


def describe(value: Any) -> str:
    """Return a value as text for a message: `"65" (text)`, `101`, `a list of 3`."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "a map" if value else "an empty map"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    text = json.dumps(value) if isinstance(value, str | int | float) else repr(value)
    if len(text) > _FOUND_CHARACTERS_MAX:
        text = text[:_FOUND_CHARACTERS_MAX] + "..."
    return f"{text} (text)" if isinstance(value, str) else text


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return a suggestion for an unknown name, or the list of known names."""
    names = list(candidates)
    lowered = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower()[:253], list(lowered), n=1, cutoff=0.6)
    if close:
        return f'; did you mean "{lowered[close[0]]}"?'
    return f"; allowed: {', '.join(names) or 'none'}"
