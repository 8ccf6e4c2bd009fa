"""The answers that a page quotes are the words of the code."""

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


def _quoted_answers() -> list[str]:
    """The answers of `why-not` that the page quotes."""
    section = PAGE.partition("\n## Nothing is evicted\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [phrase for cell in cells for phrase in re.findall(r"`([^`]+)`", cell)]


def test_the_page_quotes_answers() -> None:
    assert len(_quoted_answers()) > 5


@pytest.mark.parametrize("phrase", _quoted_answers())
def test_a_quoted_answer_is_in_the_code(phrase: str) -> None:
    """A number of the page stands for a figure of the code; omissions are not checked."""
    for words in filter(None, map(str.strip, phrase.split("..."))):
        pattern = r"\{[^{}]*\}".join(map(re.escape, re.split(r"\d+", words)))
        assert re.search(pattern, CODE), f"{words!r} is said nowhere"
