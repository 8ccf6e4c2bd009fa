"""What a page says that a command answers is what it answers: the words are those of the code."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text(encoding="utf-8")
CODE = "".join(
    path.read_text(encoding="utf-8")
    for package in ("streams", "connectors")
    for path in sorted(Path(ROOT / package).rglob("*.py"))
)


def _said() -> list[str]:
    """What `why-not` says, by the page."""
    section = PAGE.partition("\n## Nothing is evicted\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [phrase for cell in cells for phrase in re.findall(r"`([^`]+)`", cell)]


def test_the_page_quotes_answers() -> None:
    assert len(_said()) > 5


@pytest.mark.parametrize("phrase", _said())
def test_an_answer_that_the_page_quotes_is_one(phrase: str) -> None:
    """Where the page has a number, code has a figure; what it leaves out is not looked at."""
    for words in filter(None, map(str.strip, phrase.split("..."))):
        pattern = r"\{[^{}]*\}".join(map(re.escape, re.split(r"\d+", words)))
        assert re.search(pattern, CODE), f"{words!r} is said nowhere"
