"""YAML is read strictly, with line numbers and within limits."""

import math
from typing import Any

import pytest

from schemas.messages.policies import DOCUMENT_BYTES_MAX
from schemas.policy.errors import PolicyError, Problem
from schemas.policy.yamltext import (
    DEPTH_MAX,
    DOCUMENTS_MAX,
    VALUES_MAX,
    YamlDocument,
    read_documents,
    resolve_scalar,
)


def document(text: str) -> YamlDocument:
    documents, problems = read_documents(text)
    assert problems == []
    assert len(documents) == 1
    return documents[0]


def problems(text: str | bytes) -> list[Problem]:
    """Return the problems, whether reading continued after them or not."""
    try:
        _, messages = read_documents(text)
    except PolicyError as error:
        return list(error.problems)
    return messages


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-0", 0),
        ("+5", 5),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".inf", math.inf),
    ],
)
def test_plain_scalars_mean_what_yaml_1_2_says(text: str, value: Any) -> None:
    resolved = resolve_scalar(text)
    assert resolved == value
    assert type(resolved) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "on",
        "off",
        "yes",
        "no",
        "y",
        "012",
        "0o17",
        "0x1F",
        "1_000",
        "1:30",
        "2026-07-24",
        "007.5",
        "1" * 50,
    ],
)
def test_scalars_that_yaml_1_1_converts_stay_text(text: str) -> None:
    if text == "1" * 50:
        assert resolve_scalar(text) == float(text)
        assert resolve_scalar(text * 2) == text * 2
    else:
        assert resolve_scalar(text) == text


def test_quoted_scalars_are_text() -> None:
    assert document("{a: \"1\", b: 'true', c: !!str 2}").value == {
        "a": "1",
        "b": "true",
        "c": "2",
    }


def test_every_value_has_its_line() -> None:
    read = document("a: 1\nb:\n  - x\n  -\n    c: 2\n    d:\n      e: 3\n")
    lines = {
        ("a",): 1,
        ("b",): 2,
        ("b", 0): 3,
        ("b", 1): 5,
        ("b", 1, "c"): 5,
        ("b", 1, "d"): 6,
        ("b", 1, "d", "e"): 7,
    }
    assert {path: read.line_of(path) for path in lines} == lines
    assert read.line_of(("b", 1, "missing", 7)) == 5
    assert read.line_of(("missing",)) == 1


def test_several_documents_are_read_with_their_lines() -> None:
    documents, _ = read_documents("a: 1\n---\n# nothing\n---\nb: 2\n")
    assert [document.value for document in documents] == [{"a": 1}, None, {"b": 2}]
    assert documents[2].line_of(("b",)) == 5


def test_duplicate_keys_are_reported_with_both_lines() -> None:
    found_problems = problems("a: 1\nb: {c: 1, c: 2}\na: 3\n")
    assert [(problem.path, problem.line) for problem in found_problems] == [("b.c", 2), ("a", 3)]
    assert "also in line 1" in found_problems[1].message


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\n1: 2", 2, "found 1; allowed is text: put it in quotes"),
        ("true: 2", 1, "found true; allowed is text"),
        ("? [a]\n: 1", 1, "found a map or a list as a key"),
        ("a: &x {b: 1}\nc:\n  <<: *x", 3, "merge keys are not allowed"),
        ("a: !!int 5", 1, "found the tag tag:yaml.org,2002:int"),
        ("a: !!python/object:os.system x", 1, "tags are not allowed"),
        ("a: *b", 1, "found undefined alias 'b'"),
        ("a: &a [*a]", 1, f"more than {DEPTH_MAX} levels"),
        ("a:\n\tb: 1", 2, "indent with spaces, not tabs"),
        ("a: [1, 2", 1, "not readable as YAML"),
        ("a: b: c", 1, "not readable as YAML"),
        ('a: "\\UFFFFFFFF"', None, "not readable as YAML"),
        ("a: 1\nb: \x00", 2, "found the character U+0000"),
        ("a: 1\nb: \ud800", 2, "found the character U+D800"),
        (b"a: 1\nb: \xff", 2, "found the byte 0xff, which is not UTF-8"),
        ("x" * (DOCUMENT_BYTES_MAX + 1), None, f"more than {DOCUMENT_BYTES_MAX} bytes"),
        ("é" * (DOCUMENT_BYTES_MAX // 2 + 1), None, f"more than {DOCUMENT_BYTES_MAX} bytes"),
        ("[" * 100_000, 1, f"more than {DEPTH_MAX} levels"),
        ("{a: " * 30_000, 1, f"more than {DEPTH_MAX} levels"),
        ("- " * 60_000, 1, f"more than {DEPTH_MAX} levels"),
        ("a: [" + "x," * VALUES_MAX + "]", 1, f"more than {VALUES_MAX} values"),
        (
            "a\n---\n" * (DOCUMENTS_MAX + 1),
            2 * DOCUMENTS_MAX + 1,
            f"more than {DOCUMENTS_MAX} documents",
        ),
    ],
)
def test_invalid_yaml_is_refused_with_line_and_reason(
    text: str | bytes, line: int | None, message: str
) -> None:
    found_problems = problems(text)
    assert len(found_problems) == 1
    assert found_problems[0].line == line
    assert message in found_problems[0].message


def test_aliases_share_a_value_and_count_with_its_size() -> None:
    assert document("a: &x {cpu: 1}\nb: *x").value == {"a": {"cpu": 1}, "b": {"cpu": 1}}
    bomb = "a0: &a0 [x]\n" + "".join(
        f"a{level + 1}: &a{level + 1} [{','.join([f'*a{level}'] * 9)}]\n" for level in range(9)
    )
    assert f"more than {VALUES_MAX} values" in problems(bomb)[0].message
