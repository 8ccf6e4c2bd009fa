import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.golden import __main__ as command
from tests.golden.cases import DIFFERENCES_MAX, run_directory, scenarios

_GOLDEN = Path(__file__).parent


def write(path: Path, cases: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(case) + "\n" for case in cases)


@pytest.fixture
def some() -> list[Any]:
    """A few scenarios that agree."""
    cases: list[Any] = []
    for case in scenarios(_GOLDEN / "loadaware.jsonl.gz"):
        if "rounds" in case["expected"]:
            cases.append(case)
        if len(cases) == 3:
            break
    return cases


def spoil(case: Any) -> None:
    """Expect another score of every node."""
    for answers in case["expected"]["rounds"]:
        for nodes in answers.values():
            for of_node in nodes.values():
                of_node["score"] += 1


def main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["golden", *arguments])
    return command.main()


def test_every_file_below_the_directory_is_run(tmp_path: Path, some: list[Any]) -> None:
    write(tmp_path / "loadaware.jsonl.gz", some)
    write(tmp_path / "deep" / "er" / "loadaware.jsonl.gz", some[:1])
    reports, passed = run_directory(tmp_path)
    assert [(each.family, each.agreeing, each.scenarios) for each in reports] == [
        ("loadaware", 1, 1),
        ("loadaware", 3, 3),
    ]
    assert passed


def test_agreement_is_printed_and_exits_with_0(
    tmp_path: Path, some: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    write(tmp_path / "loadaware.jsonl.gz", some)
    assert main(monkeypatch, str(tmp_path)) == 0
    assert capsys.readouterr().out == "loadaware: 3 of 3 scenarios agree\n"


def test_a_scenario_that_differs_is_shown_and_exits_with_1(
    tmp_path: Path, some: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    spoil(some[1])
    write(tmp_path / "loadaware.jsonl.gz", some)
    assert main(monkeypatch, str(tmp_path)) == 1
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == "loadaware: 2 of 3 scenarios agree"
    assert second.startswith(f"  {some[1]['scenario']['name']}: round 0, pod ")


def test_a_scenario_that_our_schemas_refuse_differs_and_the_others_are_run(
    tmp_path: Path, some: list[Any]
) -> None:
    some[0]["scenario"]["nodes"][0]["name"] = "not/a name"
    write(tmp_path / "loadaware.jsonl.gz", some)
    (report,), passed = run_directory(tmp_path)
    assert (report.agreeing, report.scenarios, passed) == (2, 3, False)
    (line,) = report.differing
    assert "expected an answer, found a scenario that is refused (" in line
    assert "not/a name" in line


def test_only_the_first_differences_are_shown(tmp_path: Path, some: list[Any]) -> None:
    for case in some:
        spoil(case)
    write(tmp_path / "loadaware.jsonl.gz", some * 20)
    (report,), passed = run_directory(tmp_path)
    assert (report.agreeing, report.scenarios, passed) == (0, 60, False)
    assert len(report.differing) == DIFFERENCES_MAX


def test_a_directory_without_golden_files_says_what_it_should_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(monkeypatch, str(tmp_path)) == 2
    assert "no loadaware.jsonl.gz or lownodeload.jsonl.gz below" in capsys.readouterr().err


def test_no_directory_at_all_says_how_it_is_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(monkeypatch) == 2
    assert "usage:" in capsys.readouterr().err
