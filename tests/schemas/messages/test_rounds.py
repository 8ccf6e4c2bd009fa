"""The record of a round is bounded, and says what of it is wrong."""

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.base.refusals import Refusal
from schemas.examples import EXAMPLES
from schemas.messages.rounds import (
    HOT_NODES_MAX,
    PODS_PER_NODE_MAX,
    HotNode,
    MoveCosts,
    PodVerdict,
    PoolRound,
    RebalanceRound,
    UsageHistoryRow,
)
from schemas.topics.catalog import key_of
from schemas.topics.codec import decode, encode

(ROUND,) = [each for each in EXAMPLES["status"] if isinstance(each, RebalanceRound)]
#: Most bytes that a record of Kafka's default size holds.
RECORD_BYTES_MAX = 1_048_576


def test_a_round_belongs_to_its_cluster() -> None:
    assert key_of("status", ROUND) == ROUND.cluster


def test_a_round_holds_no_more_than_it_may() -> None:
    node = ROUND.pools[0].hot[0]
    pod = node.pods[0]

    def refused(part: type[Any], **values: Any) -> None:
        with pytest.raises(ValidationError, match="at most"):
            part(**values)

    refused(PoolRound, pool="web", hot=(node,) * (HOT_NODES_MAX + 1))
    pods = (pod,) * (PODS_PER_NODE_MAX + 1)
    refused(HotNode, **{**dict(node), "pods": pods})
    refused(PodVerdict, pod=pod.pod, gate="x" * 501)


def test_as_many_hot_nodes_and_pods_as_a_round_names_fit_into_one_record() -> None:
    node = ROUND.pools[0].hot[0]
    full = node.model_copy(update={"pods": node.pods[1:] * PODS_PER_NODE_MAX})
    pool = ROUND.pools[0].model_copy(update={"hot": (full,) * HOT_NODES_MAX})
    assert len(encode(ROUND.model_copy(update={"pools": (pool,)}))) < RECORD_BYTES_MAX


@pytest.mark.parametrize("threshold", [-1.0, 10_001.0, float("nan"), float("inf")])
def test_a_threshold_that_is_no_percentage_is_refused_with_what_is_allowed(
    threshold: float,
) -> None:
    good = b'"high":{"cpu":70.0}'
    written = encode(ROUND)
    assert good in written
    text = {"nan": b"NaN", "inf": b"Infinity"}.get(str(threshold), str(threshold).encode())
    answer = decode("status", written.replace(good, b'"high":{"cpu":' + text + b"}"))
    assert isinstance(answer, Refusal)
    assert answer.reason.startswith("pools[0].thresholds.high.cpu is ")
    assert answer.reason.endswith("allowed is a number from 0 to 10000")


@pytest.mark.parametrize("figure", [float("inf"), float("-inf"), float("nan")])
def test_a_figure_that_json_does_not_have_is_refused(figure: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        UsageHistoryRow(cluster="c", filled=({"cpu": figure},))
    with pytest.raises(ValidationError, match=r"finite|greater"):
        MoveCosts(source_before=figure, source_after=0.0, target_before=0.0, target_after=0.0)
