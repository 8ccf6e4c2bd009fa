"""`python -m benchmarks.publish [--check]`: the figures of the documents, from what was measured.

`docs/contributing/figures.jsonl` is what `make bench` printed when the documents were last brought up to date. A
document names a figure where it shows it, `<!--recovery_s-->10.9 s<!---->`, and this writes what
stands in between. `#least` after the name means the smallest of the measured times, and any other
name there a number of `detail`, which is shown without a unit: `<!--recovery_s#nodes-->`. So README
and the page of benchmarks cannot disagree. A figure that has not been measured yet is shown as such;
one that `make bench` does not know is an error.
"""

import json
import re
import sys
from collections.abc import Collection, Mapping
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from benchmarks.__main__ import benchmarks

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "docs/contributing/figures.jsonl"
#: The documents that show figures.
DOCUMENTS = ("README.md", "docs/contributing/benchmarks.md", "docs/how-to/sizing.md")

_SHOWN = re.compile(r"<!--([a-z_0-9.]+)(#[a-z_0-9.]+)?-->.*?<!---->")
#: What is shown of a figure that was not measured.
_MISSING = "not measured yet"
_UNITS = {"us": "µs", "B": "", "1/s": "/s"}


def read(text: str) -> dict[str, Mapping[str, Any]]:
    """Figures by name, of the lines that a benchmark prints."""
    return {line["name"]: line for line in map(json.loads, text.splitlines())}


def filled_in(
    document: str, figures: Mapping[str, Mapping[str, Any]], known: Collection[str] = ()
) -> str:
    """A document with the figures as they were measured.

    Args:
        document: the text.
        figures: what was measured, by name.
        known: names of all that can be measured.

    Raises KeyError for a name that is neither among the figures nor known.
    """

    def shown(match: re.Match[str]) -> str:
        name, part = match[1], match[2] or ""
        if name not in figures and name in known:
            return f"<!--{name}{part}-->{_MISSING}<!---->"
        value, unit = _find(figures[name], part.removeprefix("#"))
        return f"<!--{name}{part}-->{_text(value, unit)}<!---->"

    return _SHOWN.sub(shown, document)


def _find(figure: Mapping[str, Any], part: str) -> tuple[float, str]:
    """The value and the unit of a figure, or of a part of its detail, such as `cpu_cores.kafka`."""
    if not part:
        return figure["value"], figure["unit"]
    if part == "least":
        return figure["detail"]["min_us"], figure["unit"]
    return reduce(getitem, part.split("."), figure["detail"]), ""


def _text(value: float, unit: str) -> str:
    """Three digits that count, no more after the point than these need."""
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    word = _UNITS.get(unit, unit)
    return f"{digits}{'' if word.startswith('/') or not word else ' '}{word}"


def main(arguments: list[str]) -> int:
    """Bring the documents up to date; with `--check` say which are not, and change nothing."""
    figures = read(MEASURED.read_text(encoding="utf-8"))
    known = benchmarks()
    differing = 0
    for name in DOCUMENTS:
        path = ROOT / name
        before = path.read_text(encoding="utf-8")
        after = filled_in(before, figures, known)
        if after != before:
            differing += 1
            print(f"{'differs' if '--check' in arguments else 'wrote'}: {name}")
            if "--check" not in arguments:
                path.write_text(after, encoding="utf-8")
    return 1 if differing and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
