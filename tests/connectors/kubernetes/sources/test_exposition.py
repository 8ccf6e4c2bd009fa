"""Figures are read from the text format of kubelets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from connectors.kubernetes.sources.kubelet.counters import (
    UNTIMED,
    NoExposition,
    check_complete,
    parse_labels,
    parse_samples,
)
from tests.connectors.kubernetes.sources.builders import busy_node

_NAMES = ("pod_cpu_usage_seconds_total", "pod_cpu_usage_seconds_total_more", "up")
#: Labels, value, time in ms.
_Line = tuple[dict[str, str], float, int | None]

_values = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
_labels = st.dictionaries(st.sampled_from(("namespace", "pod", "x")), _values, max_size=3)
_lines = st.lists(
    st.tuples(
        _labels,
        st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.integers(0, 2**42),
    ),
    max_size=8,
)


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


@given(st.lists(st.tuples(st.sampled_from(_NAMES), _lines), max_size=3, unique_by=lambda f: f[0]))
def test_the_parser_agrees_with_the_general_one(families: list[tuple[str, list[_Line]]]) -> None:
    text = ""
    for name, lines in families:
        text += f'# HELP {name} Some {name}{{x="y"}} 1\n# TYPE {name} gauge\n'
        for labels, value, at_ms in lines:
            pairs = ",".join(f'{key}="{_escape(value)}"' for key, value in labels.items())
            stamp = "" if at_ms is None else f" {at_ms}"
            text += f"{name}{{{pairs}}} {value!r}{stamp}\n"
    for name in _NAMES:
        expected = [
            (sample.labels, sample.value, sample.timestamp)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        ]
        samples = parse_samples(text.encode(), name.encode())
        assert [(parse_labels(labels), value) for labels, value, _ in samples] == [
            (labels, value) for labels, value, _ in expected
        ]
        times = [None if at_ms == UNTIMED else at_ms / 1000 for _, _, at_ms in samples]
        assert times == [None if at is None else float(at) for _, _, at in expected]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "the answer is empty"),
        (b"up 1\nnode_cpu_us", "has 16 bytes and ends in the middle of a line"),
        (b"<html>no</html>\n", "is not text with metrics; it begins with b'<html>"),
        (b'{"kind": "Status"}\n', "is not text with metrics"),
    ],
)
def test_an_incomplete_answer_is_an_error(body: bytes, complaint: str) -> None:
    with pytest.raises(NoExposition, match=complaint):
        check_complete(body)


def test_a_real_kubelets_answer_has_every_pod_once() -> None:
    body = busy_node(30, 2, 100.0, 1_770_000_000_000)
    check_complete(body)
    samples = parse_samples(body, b"pod_cpu_usage_seconds_total")
    assert len({labels for labels, _, _ in samples}) == len(samples) == 30
    assert len(parse_samples(body, b"container_memory_working_set_bytes")) == 60


@given(st.binary(max_size=300))
def test_any_bytes_raise_only_the_documented_error(body: bytes) -> None:
    try:
        check_complete(body)
        for labels, _, _ in parse_samples(body, b"m"):
            parse_labels(labels)
    except NoExposition:
        pass
