"""What the values of a policy are chosen by, from a cluster's history."""

import pytest

from connectors.policies.draft.history import Amounts, History, MeanUsage
from connectors.policies.draft.summary import summarize


def test_a_pod_that_requests_next_to_nothing_does_not_speak_for_all_others() -> None:
    usual: tuple[Amounts, Amounts] = (200, None), (1_000, None)
    tiny: tuple[Amounts, Amounts] = (500, None), (1, None)
    history = History(readings=[MeanUsage("n1", 0, (100, None))], used=[usual] * 99 + [tiny])
    share = summarize(history).used_of_requests["cpu"]
    assert share == pytest.approx((99 * 0.2 + 5) / 100)
