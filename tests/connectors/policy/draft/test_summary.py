"""What the values of a policy are chosen by, from a cluster's history."""

import pytest

from connectors.policy.draft.history import History, MeanUsage
from connectors.policy.draft.summary import summarize


def test_a_pod_that_requests_next_to_nothing_does_not_speak_for_all_others() -> None:
    history = History(readings=[MeanUsage("n1", 0, (100, None))])
    history.used = [((200, None), (1_000, None))] * 99 + [((500, None), (1, None))]
    share = summarize(history).used_of_requests["cpu"]
    assert share == pytest.approx((99 * 0.2 + 5) / 100)
