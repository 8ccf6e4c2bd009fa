"""A first policy as YAML, with the reason of each value as a comment above it."""

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from connectors.policies.draft.advice import advise, list_gaps
from connectors.policies.draft.reading import ClusterHistory
from connectors.units import time_text
from schemas.base.printable import to_one_line

_WIDTH = 100
_INDENT = "  "
#: Text that YAML reads as text without quotes.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_WORDS = ("true", "false", "null")


def document(cluster: str, history: ClusterHistory) -> str:
    """Return the policy as text; reading it gives no errors and no warnings."""
    lines = [*_header(cluster, history)]
    open_path: tuple[str, ...] = ()
    for value in advise(history):
        *sections, name = value.path
        common = 0
        while common < len(sections) and tuple(sections[: common + 1]) == open_path[: common + 1]:
            common += 1
        if common == 0:
            lines.append("")
        for depth in range(common, len(sections)):
            lines.append(f"{_INDENT * depth}{sections[depth]}:")
        open_path = tuple(sections)
        indent = _INDENT * len(sections)
        lines += comment(value.reason, indent)
        lines.append(f"{indent}{name}: {flow(value.value)}")
    return "\n".join(lines) + "\n"


def _header(cluster: str, history: ClusterHistory) -> Iterator[str]:
    since, until = (time_text(at_ms)[:16] for at_ms in (history.since_ms, history.until_ms))
    yield from comment(
        f"A first policy of cluster {to_one_line(cluster)}, from its history between {since} and {until} UTC: "
        f"{history.nodes:,} nodes, {history.pods:,} pods."
    )
    yield from comment(
        "Check it, then run `loadstream policy apply`. A field that is not named here has its default."
    )
    for sentence in list_gaps(history):
        yield from comment(f"Without data: {sentence}.")


def comment(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{flow(key)}: {flow(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _WORDS:
        return value
    return json.dumps(value)
