"""Links and citations of pages and comments lead to existing files."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, lines, name, tracked

_UPSTREAM = ROOT / "docs" / "reference" / "upstream.md"
_COMPAT = ROOT / "docs" / "reference" / "compat.md"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_RULES = re.compile(
    r"docs/reference/upstream\.md\s+(?:#:?\s+)?((?:[A-Z]\d+(?:\.\d+)?(?:,\s+| and | to )?)+)"
)
_RANGE = re.compile(r"\b([ABDGKLMOPRX])(\d+)(?:\.\d+)?(?: to [A-Z](\d+))?\b")


def _anchors(page: Path) -> set[str]:
    """Return the anchors of the headings as the pages show them: lower case, hyphens, no punctuation."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_link_leads_to_an_existing_file_and_heading(page: Path) -> None:
    text = "\n".join(line.text for line in lines(page) if line.code is None)
    broken = []
    for link in _LINK.findall(text):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(link)
    assert broken == []


def _known_rules() -> set[str]:
    rules: set[str] = set()
    for page in (_UPSTREAM, _COMPAT):
        for kind, first, last in _RANGE.findall(page.read_text(encoding="utf-8")):
            rules |= {f"{kind}{number}" for number in range(int(first), int(last or first) + 1)}
    return rules


def test_a_cited_rule_is_a_row_of_the_pages_about_upstream() -> None:
    valid, cited = _known_rules(), set()
    missing = []
    for path in tracked(".py", ".md", ".yaml", ".yml"):
        if path == _UPSTREAM or "published" in path.parts:
            continue
        for text in _RULES.findall(path.read_text(encoding="utf-8")):
            rules = re.findall(r"[A-Z]\d+", text)
            cited |= set(rules)
            missing += [f"{path.relative_to(ROOT)}: {rule}" for rule in rules if rule not in valid]
    assert len(cited) > 20
    assert missing == []


def test_a_page_that_is_named_anywhere_exists() -> None:
    missing = []
    bases = (ROOT, ROOT / "docs", *(ROOT / "docs").iterdir())
    for path in tracked(".py", ".md", ".yaml", ".yml", ".toml"):
        if "published" in path.parts or path in (Path(__file__), _UPSTREAM):  # upstream's own files
            continue
        for cited in re.findall(
            r"(?<![\w./-])((?:[\w.-]+/)*[\w-]+\.md)\b", path.read_text("utf-8")
        ):
            if not any((base / cited).exists() for base in (*bases, path.parent)):
                missing.append(f"{path.relative_to(ROOT)}: {cited}")
    assert missing == []
