"""A policy as YAML, the reason of each value as a comment above it."""

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from connectors.policies.draft.advice import Advice
from connectors.policies.draft.summary import ClusterSummary
from connectors.units import time_text
from schemas.base.printable import to_one_line

_WIDTH = 100
_INDENT = "  "
#: Text that YAML reads as itself, and as nothing else.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_WORDS = ("true", "false", "null")


def document(cluster: str, summary: ClusterSummary, advice: Advice) -> str:
    """The text of the policy; it reads back without an error."""
    lines = [*_header(cluster, summary, advice), ""]
    open_path: tuple[str, ...] = ()
    for each in advice.values:
        *sections, name = each.path
        common = 0
        while common < len(sections) and tuple(sections[: common + 1]) == open_path[: common + 1]:
            common += 1
        if common == 0 and open_path:
            lines.append("")
        for depth in range(common, len(sections)):
            lines.append(f"{_INDENT * depth}{sections[depth]}:")
        open_path = tuple(sections)
        indent = _INDENT * len(sections)
        lines += comment(each.reason, indent)
        lines.append(f"{indent}{name}: {flow(each.value)}")
        # A value at the top is a section of its own.
        open_path = open_path or (name,)
    return "\n".join(lines) + "\n"


def _header(cluster: str, summary: ClusterSummary, advice: Advice) -> Iterator[str]:
    yield from comment(
        f"A first policy of cluster {to_one_line(cluster)}, from its history between {_minute(summary.since_ms)} "
        f"and {_minute(summary.until_ms)} UTC: {summary.nodes:,} nodes, {summary.pods:,} pods."
    )
    yield from comment(
        "Look it through, then `loadstream policy apply`. What is not named here has its default."
    )
    if advice.left_out:
        yield "#"
        for sentence in advice.left_out:
            yield from comment(f"Without data: {sentence}.")


def _minute(at_ms: int) -> str:
    return time_text(at_ms)[:16]


def comment(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{flow(key)}: {flow(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _WORDS:
        return value
    return json.dumps(value)
