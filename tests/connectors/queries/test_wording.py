"""Every message has a printable sentence."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.queries.wording import sentence
from connectors.units import duration_ms
from schemas.base.refusals import Refusal
from schemas.examples import EXAMPLES
from schemas.messages.decisions import ReasonCount
from tests.connectors.kafka.messages import decision


@pytest.mark.parametrize(
    "message", [message for examples in EXAMPLES.values() for message in examples]
)
def test_every_class_of_message_has_a_sentence(message: Any) -> None:
    text = sentence(message)
    assert text.isprintable()
    for field in {"node", "source_node", "reason"} & message.model_fields_set:
        assert (getattr(message, field) or "") in text


@pytest.mark.parametrize(
    ("message", "ending"),
    [
        ("2 nodes: Too many pods; 1 node: were unschedulable", ""),
        ("it waits with them", "; 2 nodes: Too many pods; 1 node: node(s) were unschedulable"),
    ],
)
def test_a_node_that_is_refused_counts_once(message: str, ending: str) -> None:
    reasons = (
        ReasonCount(reason="Too many pods", nodes=2),
        ReasonCount(reason="node(s) were unschedulable", nodes=1),
    )
    text = sentence(decision(outcome="waiting", message=message, reasons=reasons, attempt=1))
    assert text == f"pod web/front-1 waits for a node (attempt 1): {message}{ending}"


@given(st.text())
def test_foreign_text_stays_on_one_line(text: str) -> None:
    refused = sentence(Refusal("invalid", text))
    assert refused.isprintable()
    assert sentence(decision(message=text)).isprintable()


def test_an_escape_sequence_is_escaped() -> None:
    assert sentence(Refusal("invalid", "a\x1b[2Jb\nc\u202ed")) == "invalid: a [2Jb c d"


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [
        ("0s", 0), ("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000), ("1d", 86_400_000),
        ("250ms", 250), ("", None), ("15", None), ("m", None), ("-5m", None), ("1.5h", None),
        ("1h30m", None), (" 5m", None), ("٣m", None),
    ],
)  # fmt: skip
def test_durations_are_parsed(text: str, length_ms: int | None) -> None:
    assert duration_ms(text) == length_ms
