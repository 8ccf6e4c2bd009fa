"""The figures of the documents are those that were measured, wherever they are shown."""

import re

import pytest

from benchmarks import __main__ as through_a_broker
from benchmarks import placement, rebalance
from benchmarks.publish import DOCUMENTS, MEASURED, ROOT, filled_in, main, read

FIGURES = read(MEASURED.read_text(encoding="utf-8"))


def test_the_documents_show_what_was_measured() -> None:
    assert main(["--check"]) == 0, "run `python -m benchmarks.publish` and check the result in"


def test_every_figure_that_is_kept_is_one_that_make_bench_prints() -> None:
    known = {*placement.benchmarks(), *rebalance.benchmarks(), *through_a_broker.benchmarks()}
    assert set(FIGURES) <= known


def test_readme_and_the_page_of_benchmarks_show_the_same_figures() -> None:
    readme, page = (
        set(re.findall(r"<!--([a-z_0-9.]+)-->", (ROOT / name).read_text(encoding="utf-8")))
        for name in DOCUMENTS[:2]
    )
    assert readme
    assert readme <= page


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (41.97, "us", "42 µs"),
        (8.94, "us", "8.94 µs"),
        (3536.4, "1/s", "3,536/s"),
        (1272, "B", "1,272"),
    ],
)
def test_a_figure_is_written_with_its_unit_and_the_digits_that_count(
    value: float, unit: str, text: str
) -> None:
    figures = {"f": {"value": value, "unit": unit, "detail": {"min_us": 1}}}
    assert filled_in("takes <!--f-->?<!---->, <!--f#least-->?<!---->", figures).startswith(
        f"takes <!--f-->{text}<!---->, <!--f#least-->1"
    )


def test_a_part_of_the_detail_is_shown_without_a_unit() -> None:
    detail = {"nodes": 5000, "cpu_cores": {"kafka": 0.123}}
    figures = {"f": {"value": 1, "unit": "s", "detail": detail}}
    shown = filled_in("<!--f#nodes-->?<!----> nodes, <!--f#cpu_cores.kafka-->?<!---->", figures)
    assert shown == "<!--f#nodes-->5,000<!----> nodes, <!--f#cpu_cores.kafka-->0.123<!---->"


def test_a_figure_that_was_not_measured_yet_is_shown_as_such() -> None:
    shown = filled_in("<!--f-->1<!---->, <!--f#least-->1<!---->", {}, {"f"})
    assert shown == "<!--f-->not measured yet<!---->, <!--f#least-->not measured yet<!---->"


def test_a_figure_that_nobody_measures_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        filled_in("<!--nothing-->1<!---->", {}, {"something"})
