"""Words of messages: what was found, and which name was probably meant."""

import difflib
import json
from collections.abc import Iterable
from typing import Any

_FOUND_CHARACTERS_MAX = 80
#: Names of other schedulers and deschedulers, in lower case, and ours for the same: sections, plugins.
_MEANT = {
    "lownodeutilization": ("rebalance", "LowNodeLoad"),
    "lownodeload": ("rebalance",),
    "loadawarescheduling": ("loadAware",),
    "loadawareschedulingargs": ("loadAware",),
    "noderesourcesfit": ("resourcesFit",),
    "migrationcontroller": ("migration",),
    "defaultevictor": ("evictor",),
    "targetloadpacking": ("LoadAwareScheduling", "loadAware"),
    "loadvariationriskbalancing": ("OverutilizationRisk", "overutilizationRisk"),
}


def describe(value: Any) -> str:
    """A value as it reads in a message: `"65" (text)`, `101`, `a list`."""
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


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that a wrong one probably stands for, or else all of them."""
    names = list(known)
    lowered = {each.lower(): each for each in names}
    meant = [each for each in _MEANT.get(name.lower(), ()) if each in names]
    if meant:
        return f'; did you mean "{meant[0]}"?'
    for word, ours in _MEANT.items():
        named = next((each for each in ours if each in names), None)
        if named is not None:
            lowered.setdefault(word, named)
    close = difflib.get_close_matches(name.lower()[:253], list(lowered), n=1, cutoff=0.6)
    if close:
        return f'; did you mean "{lowered[close[0]]}"?'
    return f"; allowed: {', '.join(names) or 'none'}"
