"""Every message has a sentence, and nothing in it can play tricks on a terminal."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.queries.wording import sentence
from connectors.units import amounts_text, bytes_text, duration_ms, duration_text, time_text
from schemas.base import quantities
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import ReasonCount
from schemas.topics.catalog import TOPICS
from tests.connectors.kafka.messages import EXAMPLES, decision
from tests.streams.cluster.builders import container, pod, request


@pytest.mark.parametrize(("topic", "message", "time_ms", "text"), EXAMPLES)
def test_a_message_is_said_in_a_sentence(
    topic: str, message: Any, time_ms: int | None, text: str
) -> None:
    assert sentence(message) == text


def test_there_is_an_example_of_every_class_of_message() -> None:
    classes: set[type] = set()
    for topic in TOPICS:
        classes |= set(topic.classes)
    assert {type(message) for _, message, _, _ in EXAMPLES} == classes


def test_what_is_no_message_has_no_sentence() -> None:
    with pytest.raises(TypeError, match="no sentence for a dict"):
        sentence({})


def test_a_letter_names_the_node_of_its_sample_and_says_how_long_it_is() -> None:
    letter = DeadLetter(
        topic="node-usage",
        partition=1,
        offset=5,
        reason="sampled_at_ms is 1",
        category="late",
        key_base64="Ymx1ZS9uMQ==",
        value_base64="e30gIA==",
        encoding="zlib+base64",
        part=1,
        parts=2,
    )
    assert sentence(letter) == (
        "node-usage partition 1 offset 5 of node n1 was not applied "
        "(late, 4 bytes compressed, part 2 of 2): sampled_at_ms is 1"
    )


@pytest.mark.parametrize("outcome", ["waiting", "refused", "withdrawn", "expired"])
def test_a_decision_without_a_node_says_what_it_means(outcome: str) -> None:
    assert len(sentence(decision(outcome=outcome))) > len("pod web/front-1 ")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("2 nodes: Too many pods; 1 node: were unschedulable", ""),
        ("it waits with them", "; 2 nodes: Too many pods; 1 node: node(s) were unschedulable"),
    ],
)
def test_a_node_that_is_refused_counts_once(message: str, said: str) -> None:
    reasons = (
        ReasonCount(reason="Too many pods", nodes=2),
        ReasonCount(reason="node(s) were unschedulable", nodes=1),
    )
    text = sentence(decision(outcome="waiting", message=message, reasons=reasons, attempt=1))
    assert text == f"pod web/front-1 waits for a node (attempt 1): {message}{said}"


def test_a_request_names_what_init_containers_and_overhead_ask_for() -> None:
    wanting = pod(
        containers=(container({"cpu": "1"}),),
        init_containers=(container({"memory": "2Gi"}),),
        overhead={"cpu": "250m"},
    )
    text = "pod default/pod-1 wants a node for cpu 1; init memory 2Gi; overhead cpu 250m"
    assert sentence(request(wanting)) == text


@given(st.text())
def test_foreign_text_stays_on_its_line_and_in_its_place(text: str) -> None:
    said = sentence(Refusal("invalid", text))
    assert said.isprintable()
    assert sentence(decision(message=text)).isprintable()


def test_an_escape_sequence_is_taken_apart() -> None:
    assert sentence(Refusal("invalid", "a\x1b[2Jb\nc\u202ed")) == "invalid: a [2Jb c d"


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [
        ("0s", 0), ("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000), ("1d", 86_400_000),
        ("250ms", 250), ("", None), ("15", None), ("m", None), ("-5m", None), ("1.5h", None),
        ("1h30m", None), (" 5m", None), ("٣m", None),
    ],
)  # fmt: skip
def test_lengths_of_time_are_read(text: str, length_ms: int | None) -> None:
    assert duration_ms(text) == length_ms


@given(st.integers(min_value=0, max_value=10**14))
def test_a_length_of_time_reads_back_as_it_was_written(length_ms: int) -> None:
    text = duration_text(length_ms)
    if len(text) < 11:
        assert duration_ms(text) == length_ms


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"), (1, "1"), (1023, "1023"), (1024, "1Ki"), (1536, "1.5Ki"), (1000 * 1024, "1000Ki"),
        (3 * 2**30, "3Gi"), (2**63 - 1, "8Ei"), (1_023_488, "1000Ki"), (1_023_487, "999Ki"),
        (1_048_371_855, "1000Mi"),
    ],
)  # fmt: skip
def test_bytes_are_written_with_three_digits(amount: int, text: str) -> None:
    assert bytes_text(amount) == text


@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_bytes_read_back_as_about_what_they_were(amount: int) -> None:
    text = bytes_text(amount)
    assert "e" not in text
    assert abs(quantities.parse_amount("memory", text) - amount) <= amount / 200


def test_amounts_are_written_in_the_units_that_people_use() -> None:
    amounts = {"cpu": 1250, "memory": 2**30, "ephemeral-storage": 512, "nvidia.com/gpu": 2}
    assert amounts_text(amounts) == "cpu 1.25, memory 1Gi, ephemeral-storage 512, nvidia.com/gpu 2"
    assert amounts_text({}) == "nothing"


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_any_time_can_be_written(epoch_ms: int) -> None:
    assert time_text(epoch_ms).isprintable()
