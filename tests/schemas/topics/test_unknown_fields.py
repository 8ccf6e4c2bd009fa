"""Unknown fields are found at any depth, with a suggestion."""

from collections.abc import Mapping

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.examples import DIRECTORY
from schemas.topics.catalog import TOPICS
from schemas.topics.unknown_fields import UNKNOWN_MAX, find_unknown_fields


def warnings(topic: str, record: Mapping[str, object]) -> list[str]:
    return [str(field) for field in find_unknown_fields(topic, orjson.dumps(record))]


@pytest.mark.parametrize("topic", [topic.name for topic in TOPICS])
def test_no_example_has_an_unknown_field(topic: str) -> None:
    for example in orjson.loads((DIRECTORY / f"{topic}.json").read_bytes()):
        assert warnings(topic, example) == []


def test_a_mistyped_field_is_reported_with_a_suggestion() -> None:
    node = {"kind": "node", "cluster": "blue", "node": "n1", "event": "added", "alocatable": {}}
    assert warnings("node-state", node) == [
        "alocatable is not a known field; did you mean allocatable?"
    ]


def test_a_field_below_lists_maps_and_optional_objects_is_found_once() -> None:
    container = {"requests": {"cpu": "1"}, "limts": {}}
    pod = {"namespace": "a", "name": "b", "uid": "c", "containers": [container] * 3}
    record = {"kind": "pod", "cluster": "blue", "event": "seen", "pod": pod}
    assert warnings("pod-lifecycle", record) == [
        "pod.containers[].limts is not a known field; did you mean limits?"
    ]


def test_keys_of_a_map_are_no_fields() -> None:
    node = {"kind": "node", "cluster": "blue", "node": "n1", "event": "added"}
    assert warnings("node-state", {**node, "labels": {"alocatable": "1"}}) == []


@given(st.lists(st.text(), unique=True, max_size=2 * UNKNOWN_MAX))
def test_a_limited_number_of_unknown_fields_is_reported(names: list[str]) -> None:
    record = {f"x-{name}": 1 for name in names}
    assert len(warnings("clock", record)) == min(len(names), UNKNOWN_MAX)
