"""What a pod says that it needs, in the form in which its class asks for it."""

import pytest

from streams.pods.demand import pod_demand
from streams.pods.need import asked, form_of, nominal
from streams.pods.priority import PriorityClass
from tests.streams.cluster.builders import container, pod

_BATCH_CPU, _MID_CPU = "kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu"


@pytest.mark.parametrize(
    ("requests", "limits", "of_class", "expected"),
    [
        ({"cpu": "2"}, {"cpu": "4"}, "prod", 2_000),
        ({}, {"cpu": "4"}, "prod", 4_000),
        ({_BATCH_CPU: "700", "cpu": "2"}, {}, "batch", 700),
        ({"cpu": "2"}, {}, "batch", 2_000),
        ({_BATCH_CPU: "700"}, {}, "prod", 0),
        ({_BATCH_CPU: "700", "cpu": "2"}, {}, "free", 2_000),
    ],
)
def test_a_pod_asks_in_the_form_of_its_class_and_else_as_all_pods_do(
    requests: dict[str, str], limits: dict[str, str], of_class: PriorityClass, expected: int
) -> None:
    demand = pod_demand(pod(containers=(container(requests, limits),)))
    assert asked("cpu", demand, of_class) == expected


@pytest.mark.parametrize(
    ("of_class", "expected"), [("prod", 250), ("batch", 250), ("mid", 0), ("free", 0)]
)
def test_a_pod_that_asks_for_nothing_needs_the_flat_amount_of_its_form(
    of_class: PriorityClass, expected: int
) -> None:
    demand = pod_demand(pod(containers=(container({}, {}),)))
    assert nominal("cpu", demand, of_class) == expected


def test_each_class_asks_for_a_form_of_its_own() -> None:
    assert [form_of("cpu", of_class) for of_class in ("prod", "batch", "mid", "free")] == [
        "cpu", _BATCH_CPU, _MID_CPU, None,
    ]  # fmt: skip
