"""Logs about problems of a stage."""

import logging

import pytest

from streams.worker.partitions import StageProblems


def test_the_log_has_the_start_and_the_end_of_each_problem_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notices = StageProblems("cluster")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            notices.report("topics", {"journal": "topic journal is missing"})
            notices.report("clock", {})
        notices.report("topics", {})
    assert caplog.messages == [
        "cluster: topic journal is missing",
        "cluster: journal: the problem is solved",
    ]
