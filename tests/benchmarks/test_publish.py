"""The figures in the documents are the measured figures."""

import re

from benchmarks.__main__ import BENCHMARKS
from benchmarks.publish import DOCUMENTS, MEASURED, ROOT, main, read_figures

FIGURES = read_figures(MEASURED.read_text(encoding="utf-8"))


def test_the_documents_show_the_measured_figures() -> None:
    assert main(["--check"]) == 0, "run `python -m benchmarks.publish` and check the result in"


def test_every_recorded_figure_is_printed_by_make_bench() -> None:
    assert FIGURES.keys() <= BENCHMARKS.keys()


def test_readme_and_the_page_of_benchmarks_show_the_same_figures() -> None:
    readme, page = (
        set(re.findall(r"<!--([a-z_0-9.]+)-->", (ROOT / name).read_text(encoding="utf-8")))
        for name in DOCUMENTS[:2]
    )
    assert readme
    assert readme <= page
