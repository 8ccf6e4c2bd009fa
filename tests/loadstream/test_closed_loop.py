"""`loadstream closed-loop` as a command."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadstream.commands import app

_SMALL = (
    "--nodes", "6", "--hours", "0.2", "--load", "40", "--set", "filling_hours=0.3", "--jobs", "1",
)  # fmt: skip


def call(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["closed-loop", *arguments], env={"COLUMNS": "200"})
    return result.exit_code, result.stdout, result.stderr


def test_a_table_has_a_column_for_each_contender_and_the_page_a_chart(tmp_path: Path) -> None:
    page = (tmp_path / "report").with_suffix(".md")
    code, out, err = call(
        *_SMALL, "--contenders", "least-allocated,random-choice", "--seeds", "2", "--report", str(page)
    )  # fmt: skip
    assert code == 0, err
    assert len(re.findall(r"^ +least-allocated +random-choice$", out, re.MULTILINE)) == 1
    assert "1 day with 2 seeds" in out
    assert "day model, least-allocated, seed 0: 0 of 0.5 h" in err
    assert page.read_text(encoding="utf-8").count("| random-choice |") == 1
    chart = page.with_suffix(".svg").read_text(encoding="utf-8")
    assert chart.count(">random-choice</text>") == 1


def test_several_loads_have_one_section_each_and_one_chart(tmp_path: Path) -> None:
    report = (tmp_path / "report").with_suffix(".md")
    arguments = (
        *_SMALL, "--load", "40,40.25", "--contenders", "least-allocated,random-choice", "--keep", str(tmp_path),
        "--report", str(report),
    )  # fmt: skip
    code, out, err = call(*arguments)
    assert code == 0, err
    assert ["mean load 40%\n" in out, "mean load 40.25%\n" in out] == [True, True]
    assert "40.25% load, day model, random-choice, seed 0:" in err
    text = report.read_text(encoding="utf-8")
    assert [line for line in text.split("\n") if line.startswith("## ")] == [
        "## All scenarios", "## mixed, mean load 40 %", "## mixed, mean load 40.25 %",
    ]  # fmt: skip
    assert "![Hot node-minutes by contender](report.svg)" in text
    chart = (tmp_path / "report.svg").read_text(encoding="utf-8")
    assert chart.count(">random-choice<") == 2
    assert "mixed, mean load 40.25 %: hot" in chart
    code, _, err = call(*arguments)
    assert (code, err) == (0, "")


@pytest.mark.slow
def test_results_do_not_depend_on_the_order_of_sets() -> None:
    """Two processes with different hash seeds give the same results, except for CPU time."""

    def run_once(hash_seed: str) -> object:
        loadstream = str(Path(sys.executable).parent / "loadstream")
        names = ("--contenders", "koordinator-lownodeload-75,random-choice", "--json")
        command = (loadstream, "closed-loop", *_SMALL, *names)
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, capture_output=True, env=environment, check=True)  # noqa: S603
        (document,) = json.loads(done.stdout)["comparisons"]
        assert all(contender.pop("cpu_s") for contender in document["contenders"])
        return document

    assert run_once("1") == run_once("2")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--contenders", "nobody"), "'nobody'"),
        (("--contenders", ""), "contender"),
        (("--trace", "/nowhere"), "/nowhere"),
        (("--load", "40,40"), "'40,40'"),
        (("--load", "0"), "'0'"),
        (("--scenario", "web,cron"), "'web,cron'"),
        (("--days", "20110303"), "'20110303'"),
        (("--seeds", "5-3"), "'5-3'"),
        (("--seeds", "2-2", "--set", "system_share=0.35"), "system_share: found 0.35"),
        (("--set", "speed=3"), "filling_hours, pod_divisor,"),
        (("--set", "memory_start=3"), "memory_start"),
        (("--set", "memory_start=0.5,11"), "0 to 10"),
        (("--set", "memory_growth=0.5,0.1"), "memory_growth"),
        (("--set", "lag_s=nan"), 'lag_s: found "nan"'),
        (("--set", "lag_s=2.5"), 'lag_s: found "2.5"'),
        (("--set", "pod_divisor=0"), 'pod_divisor: found "0"; expected an integer from 1 to 1000'),
        (("--set", "sample_s=15"), "step_s, 10"),
        (("--report", "/nowhere/page"), ".md"),
        (("--report", "page.pdf"), "'page.pdf'"),
        (("--keep", "/etc/passwd"), "/etc/passwd"),
        (("--nodes", "1"), "2 to 20000"),
    ],
)
def test_invalid_runs_are_errors(arguments: tuple[str, ...], expected: str) -> None:
    code, _, err = call(*_SMALL, *arguments)
    assert code == 2
    assert expected in " ".join(err.replace("│", " ").split())


def test_each_scenario_runs_under_a_policy_at_its_own_load() -> None:
    code, out, err = call(
        "--scenario", "all", "--nodes", "3", "--hours", "0.1", "--set", "filling_hours=0.1", "--jobs", "1",
        "--contenders", "loadstream,least-allocated", "--json",
    )  # fmt: skip
    assert code == 0, err
    parameters = [comparison["parameters"] for comparison in json.loads(out)["comparisons"]]
    assert [f"{entry['scenario']} {entry['load']}" for entry in parameters] == [
        "web 0.5", "mixed 0.4", "mixed 0.55", "batch 0.5", "big-pods 0.5", "small-pods 0.55",
        "own-load 0.55", "memory 0.4", "peak 0.4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("mine.yaml", b"mode: sometimes\n", "mine.yaml: line 1: mode: found"),
        ("mine.yaml", b"mode: \xff\n", "found the byte 0xff, which is not UTF-8"),
        ("mine.yaml", b"mode: 1\nx: 1\n", "mine.yaml: line 2: x: unknown field"),
        ("loadstream.yaml", b"mode: enforce\n", "is a built-in contender"),
        ("least-allocated.yaml", b"mode: enforce\n", "is a built-in contender"),
    ],
)
def test_a_policy_that_cannot_be_compared_is_an_error(
    name: str, content: bytes, sentence: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    code, _, err = call(*_SMALL, "--contenders", "random-choice", "--policy", str(file))
    assert code == 2
    assert sentence in err


def test_an_unwritable_chart_is_an_error_before_the_runs(tmp_path: Path) -> None:
    (tmp_path / "report.svg").mkdir()
    report = (tmp_path / "report").with_suffix(".md")
    code, _, err = call(*_SMALL, "--report", str(report))
    assert code == 2
    assert "like report.svg in the same directory" in " ".join(err.replace("│", " ").split())


def test_a_policy_file_is_compared_under_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("mode: enforce\n")
    code, out, err = call(*_SMALL, "--contenders", "", "--policy", str(file), "--json")
    assert code == 0, err
    (document,) = json.loads(out)["comparisons"]
    (only,) = document["contenders"]
    assert only["name"] == "mine"
    assert only["runs"][0]["counts"]["records"] > 100
