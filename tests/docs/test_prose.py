"""How the pages and the code are written: lines that fit, and the words of the glossary."""

import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, lines, name, tracked

WIDTH = 100
#: Words that were replaced by those of the glossary and by plain English; whole words, any case.
BANNED = re.compile(
    r"\b(told|whoever|whom|so many|c[ao]m(?:e|es|ing) to nothing"
    r"|what (?:became|becomes|has become) of|lookout)\b",
    re.IGNORECASE,
)
_PACKAGES = ("schemas", "streams", "connectors", "benchmarks")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_prose_of_a_page_wraps_at_a_hundred_columns(page: Path) -> None:
    """But for tables, code, headings, and lines that are one word, such as a long link."""
    long = [
        str(line)
        for line in lines(page)
        if len(line.text) > WIDTH
        and line.code is None
        and not line.text.startswith(("|", "#"))
        and " " in line.text.strip()
    ]
    assert long == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_keeps_to_plain_words(page: Path) -> None:
    found = [str(each) for each in lines(page) if each.code is None and BANNED.search(each.text)]
    assert found == []


@pytest.mark.parametrize("package", _PACKAGES)
def test_docstrings_and_comments_keep_to_plain_words(package: str) -> None:
    """Other strings may hold them: sentences in records stay as they were published."""
    found = []
    for path in tracked(".py"):
        if path.relative_to(ROOT).parts[0] != package:
            continue
        found += [
            f"{path.relative_to(ROOT)}:{line}: {text}"
            for line, text in _prose(path.read_text(encoding="utf-8"))
            if BANNED.search(text)
        ]
    assert found == []


def _prose(source: str) -> list[tuple[int, str]]:
    """Comments, and strings that are statements, by line."""
    found: list[tuple[int, str]] = []
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        statement = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and statement):
            text = re.sub(r"\s+(#:?)?\s*", " ", token.string)
            found.append((token.start[0], text))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type
    return found


def test_a_banned_word_is_found_in_a_docstring_over_two_lines_and_not_in_a_value() -> None:
    source = '"""At most so\nmany."""\nx = "told"  # who was told\n'
    assert [line for line, text in _prose(source) if BANNED.search(text)] == [1, 3]
