"""The record of a round is bounded, and errors name the wrong field."""

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.examples import EXAMPLES
from schemas.messages.rounds import (
    HOT_NODES_MAX,
    PODS_PER_NODE_MAX,
    HotNode,
    PodVerdict,
    PoolRound,
    RebalanceRound,
)
from schemas.topics.codec import encode

(ROUND,) = [message for message in EXAMPLES["status"] if isinstance(message, RebalanceRound)]
#: Most bytes that a record of Kafka's default size holds.
RECORD_BYTES_MAX = 1_048_576


def test_a_round_record_has_limits() -> None:
    node = ROUND.pools[0].hot[0]
    pod = node.pods[0]

    def assert_refused(part: type[Any], **values: Any) -> None:
        with pytest.raises(ValidationError, match="at most"):
            part(**values)

    assert_refused(PoolRound, pool="web", hot=(node,) * (HOT_NODES_MAX + 1))
    pods = (pod,) * (PODS_PER_NODE_MAX + 1)
    assert_refused(HotNode, **{**dict(node), "pods": pods})
    assert_refused(PodVerdict, pod=pod.pod, gate="x" * 501)


def test_the_largest_round_fits_into_one_record() -> None:
    node = ROUND.pools[0].hot[0]
    full = node.model_copy(update={"pods": node.pods[1:] * PODS_PER_NODE_MAX})
    pool = ROUND.pools[0].model_copy(update={"hot": (full,) * HOT_NODES_MAX})
    assert len(encode(ROUND.model_copy(update={"pools": (pool,)}))) < RECORD_BYTES_MAX
