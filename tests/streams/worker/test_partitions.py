"""Logs about problems of a stage."""

import logging

import pytest

from streams.worker.partitions import StageProblems


def test_the_log_says_what_begins_and_what_is_over_and_nothing_in_between(
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
