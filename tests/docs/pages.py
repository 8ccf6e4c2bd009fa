"""Reads the pages of the repository: blocks, prose, links and headings."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "deploy/*.md", "tests/golden/*.md")
    for path in ROOT.glob(pattern)
)
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.) +")


@dataclass(frozen=True)
class Line:
    """One line of a page."""

    page: Path
    number: int
    text: str
    code: str | None
    """Language of the block that it is in, "" where none is named; none: it is prose."""

    def __str__(self) -> str:
        return f"{name(self.page)}:{self.number}: {self.text.strip()}"


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def lines(page: Path) -> Iterator[Line]:
    """Yield all lines except fences. A block is fenced, or indented by four columns more than its
    list.
    """
    fence: str | None = None
    inside, item = False, 0
    for number, text in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        if text.lstrip().startswith("```"):
            fence = text.strip().removeprefix("```") if fence is None else None
            continue
        if fence is None and text.strip():
            match = _ITEM.match(text)
            indent = len(text) - len(text.lstrip())
            if match is not None and indent < item + 4:
                inside, item = False, len(match[0])
            elif not inside:
                inside = indent >= item + 4
                item = item if indent else 0
            else:
                inside = indent >= 4
        code = fence if fence is not None else "" if inside and text.strip() else None
        yield Line(page, number, text, code)


def blocks(page: Path) -> Iterator[list[Line]]:
    """Yield code blocks."""
    block: list[Line] = []
    for line in lines(page):
        if line.code is not None and line.text.strip():
            block.append(line)
        elif block and (line.code is None and line.text.strip()):
            yield block
            block = []
    if block:
        yield block


def spans(page: Path) -> Iterator[tuple[int, str]]:
    """Yield code spans of the prose with the line where each begins."""
    prose = {line.number: line.text for line in lines(page) if line.code is None}
    text = "\n".join(prose.get(number, "") for number in range(1, max(prose) + 1))
    for match in re.finditer(r"`([^`]+)`", text):
        yield text.count("\n", 0, match.start()) + 1, " ".join(match[1].split())


def tracked(*suffixes: str) -> list[Path]:
    """Return the files of the repository with one of these suffixes."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    paths = [ROOT / path for path in listed if path.endswith(suffixes)]
    return [path for path in paths if path.exists()]
