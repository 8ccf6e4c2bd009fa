"""`python -m benchmarks.publish [--check]`: writes the measured figures into the documents.

`docs/contributing/figures.jsonl` has the last measured figures, in the format of `make bench`. A document
marks each figure with its name, `<!--recovery_s-->10.9 s<!---->`, and this command writes the text between
the marks. `#least` after the name selects the minimum time; another word selects a number of `detail`,
which has no unit: `<!--recovery_s#nodes-->`. A figure without a measurement is shown as "not measured
yet"; a name that is unknown to `make bench` is an error.
"""

import json
import re
import sys
from collections.abc import Collection, Mapping
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from benchmarks.__main__ import BENCHMARKS

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "docs/contributing/figures.jsonl"
#: Documents with figures.
DOCUMENTS = ("README.md", "docs/contributing/benchmarks.md", "docs/how-to/sizing.md")

_FIGURE_MARK = re.compile(r"<!--([a-z_0-9.]+)(#[a-z_0-9.]+)?-->.*?<!---->")
#: Text of a figure without a measurement.
_MISSING = "not measured yet"
_UNITS = {"us": "µs", "B": "", "1/s": "/s"}


def read_figures(text: str) -> dict[str, Mapping[str, Any]]:
    """Return the figures by name from the output of `make bench`."""
    return {line["name"]: line for line in map(json.loads, text.splitlines())}


def fill_figures(
    document: str, figures: Mapping[str, Mapping[str, Any]], names: Collection[str] = ()
) -> str:
    """Return the text of a document with the measured figures.

    Args:
        document: text of the document.
        figures: measured figures by name.
        names: names of all figures that `make bench` can measure.

    Raises KeyError for a name that is neither in `figures` nor in `names`.
    """

    def replace_mark(match: re.Match[str]) -> str:
        name, part = match[1], match[2] or ""
        if name not in figures and name in names:
            return f"<!--{name}{part}-->{_MISSING}<!---->"
        value, unit = _find_value(figures[name], part.removeprefix("#"))
        return f"<!--{name}{part}-->{_format_value(value, unit)}<!---->"

    return _FIGURE_MARK.sub(replace_mark, document)


def _find_value(figure: Mapping[str, Any], part: str) -> tuple[float, str]:
    """Return value and unit of a figure, or of a number of `detail` such as `cpu_cores.kafka`."""
    if not part:
        return figure["value"], figure["unit"]
    if part == "least":
        return figure["detail"]["min_us"], figure["unit"]
    return reduce(getitem, part.split("."), figure["detail"]), ""


def _format_value(value: float, unit: str) -> str:
    """Return a value with three significant digits and its unit."""
    digits = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    word = _UNITS.get(unit, unit)
    return f"{digits}{'' if word.startswith('/') or not word else ' '}{word}"


def main(arguments: list[str]) -> int:
    """Update the documents; with `--check` only print the names of outdated documents."""
    figures = read_figures(MEASURED.read_text(encoding="utf-8"))
    differing = 0
    for name in DOCUMENTS:
        path = ROOT / name
        before = path.read_text(encoding="utf-8")
        after = fill_figures(before, figures, BENCHMARKS)
        if after != before:
            differing += 1
            print(f"{'differs' if '--check' in arguments else 'wrote'}: {name}")
            if "--check" not in arguments:
                path.write_text(after, encoding="utf-8")
    return 1 if differing and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
