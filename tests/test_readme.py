"""The commands of "Try it by hand" in the README, run in a shell on the embedded broker."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _part(heading: str) -> str:
    """Return a section of the README."""
    after = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"## {heading}\n")[2]
    return after.partition("\n## ")[0]


def _block(heading: str) -> str:
    """Return the first shell block below a heading of the README."""
    match = re.search(r"```sh\n(.*?)```", _part(heading), re.DOTALL)
    assert match is not None
    return match[1]


def _printed(beginning: str) -> re.Pattern[str]:
    """Match a line that the README shows as printed; `...` stands for omitted text.

    The order of pod and round decides which of the two cool nodes is chosen.
    """
    lines = [line for line in _part("Try it by hand").splitlines() if line.startswith(beginning)]
    assert len(lines) == 1, f"found are {len(lines)} lines of README that begin with {beginning!r}"
    shown = ".*".join(map(re.escape, lines[0].split("...")))
    return re.compile(re.sub(r"node\\-[23]", "node-[23]", shown))


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def test_the_chart_and_the_ratios_are_those_of_the_report() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    report = (ROOT / "docs/explanation/closed-loop-report.md").read_text(encoding="utf-8")
    _, _, rows = report.partition("## mixed, mean load 55 %\n")
    bars = re.findall(r"([\w-]+)(?:, [\w /]+)? (█+) (([\d,]+) \([\d,-]+\))", readme)
    assert len(bars) == 3
    minutes_per_block = max(_number(bar[3]) for bar in bars) / max(len(bar[1]) for bar in bars)
    for label, bar, figures, median in bars:
        contender = "least-allocated" if label == "kube-scheduler" else label.lower()
        cells = re.findall(rf"^\| {contender}\S* \| ([^|]+) \|", rows, re.MULTILINE)
        assert cells[0].replace(" to ", "-") == figures
        assert abs(len(bar) - _number(median) / minutes_per_block) < 1
    table, _, _ = report.partition("\nTraces:")
    cells = [line.split("|") for line in table.splitlines() if re.match(r"\| [\w-]+, ", line)]
    for words, column in (("of the hot minutes of kube-scheduler", 2), ("of Koordinator's", 5)):
        ratios = sorted(row[column].split()[0] for row in cells)
        assert f"{ratios[0]} to {ratios[-1]} {words}" in readme


@pytest.mark.broker
@pytest.mark.timeout(900)
def test_the_commands_of_the_readme_cause_a_decision_and_an_eviction(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    outside = {k: v for k, v in os.environ.items() if not k.startswith("LOADSTREAM_")}
    done = subprocess.run(  # noqa: S603 - our own README
        ["/bin/bash", "-c", _block("Try it by hand")], cwd=tmp_path, capture_output=True,
        text=True, timeout=880, check=False,
        env={**outside, "LOADSTREAM_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    log = (tmp_path / "worker.log").read_text(encoding="utf-8")
    output = f"{done.stdout}\n{done.stderr}\n{log}"
    assert re.search(r"my-cluster pod shop/cart-1 placed on node-[23] with ", done.stdout), output
    assert _printed("my-cluster pod shop/cart-1").search(done.stdout), output
    assert re.search(r"my-cluster evict pod shop/web-[12] from node-1 until ", done.stdout), output
    assert "dry run" not in done.stdout, output
    assert re.search(r"migration m-\w+ of pod shop/web-[12] from node-1 to ", done.stdout), output
    assert "Node node-1 is in class high" in done.stdout, output
    assert "refused: 0" in done.stdout, output
    # Nothing carries out evictions here.
    warnings = [line for line in done.stderr.splitlines() if "warning" in line]
    assert all("no evictor is known" in line for line in warnings), output
    assert "has not stopped within" not in log, output
