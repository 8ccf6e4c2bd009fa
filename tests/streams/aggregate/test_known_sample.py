import re
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.messages.usage import NodeUsage
from schemas.topics.codec import decode
from streams.aggregate.collect_policies import PoolRules
from streams.aggregate.node import NodeWindows
from streams.aggregate.partition import PartitionState
from streams.aggregate.samples import SampleFigures, decode_known, extract_figures
from tests.streams.builders import CLUSTER, START_MS, pod_usage, sample

_MEMORY_FIELD = PoolRules().default.memory_field
_PODS = ("a", "b", "c")
_MEMORY = {_MEMORY_FIELD: 44, "usage_with_page_cache_bytes": 66}
#: Without the reading that counts.
_OTHER = {"usage_with_page_cache_bytes": 66}


def known_node() -> NodeWindows:
    """A node with two resources, three pods, one of them of a class, and a host application."""
    node = PartitionState(0, PoolRules()).create(CLUSTER, "n0", 0)
    pods = [pod_usage(name, 1, usage={"cpu": 1, "memory": 2}) for name in _PODS]
    pods[2]["priority_class"] = "koord-prod"
    first = by_contract(
        orjson.dumps(
            sample(
                0,
                usage={"cpu": 5, "memory": 9},
                pods=pods,
                host_applications=[{"name": "x", "usage": {"cpu": 1}}],
            )
        )
    )
    assert first is not None
    node.add_sample(first, 0, PoolRules())
    return node


def by_contract(value: bytes) -> SampleFigures | None:
    message = decode("node-usage", value)
    if not isinstance(message, NodeUsage):
        return None
    return extract_figures(message, value, _MEMORY_FIELD)


def decoded(value: bytes | None, node: NodeWindows) -> SampleFigures | None:
    usage = decode_known(value, node.cluster, node.name, node.pods.members, node.samples.resources)
    return None if usage is None else extract_figures(usage, value or b"", _MEMORY_FIELD)


def common(**fields: Any) -> dict[str, Any]:
    """A sample of the common kind; `fields` are added or replace."""
    pods = [pod_usage(name, 0, usage={"cpu": 7, "memory": 30}, priority_class="") for name in "ab"]
    whole = {"usage": {"cpu": 20, "memory": 70}, "pods": pods, **fields}
    return sample(1, **whole)


_ODD: Any = st.sampled_from(
    [None, True, False, 0, 1, -1, 1.0, 2**52, 2**63 - 1, 2**63, 2**64, "", "x", "a:b", [], {}, [1]]
)
_NAMES = st.sampled_from(["a", "b", "c", "new", "", "x", "a/b", None, 5])


@st.composite
def _some_pod(draw: st.DrawFn) -> Any:
    pod = pod_usage("a", 0)
    pod["name"] = draw(_NAMES)
    pod["uid"] = draw(st.sampled_from([f"uid-{pod['name']}", "", "other"]))
    pod["namespace"] = draw(st.sampled_from(["default", "default", "", "other"]))
    pod["usage"] = draw(
        st.dictionaries(
            st.sampled_from(["cpu", "memory", "gpu", ""]), st.integers(0, 99) | _ODD, max_size=3
        )
        | st.just({"cpu": 3, "memory": 5})
    )
    field = draw(st.sampled_from(["priority_class", "memory", "extra", "name", "none"]))
    if field != "none":
        pod[field] = draw(_ODD | st.just("koord-prod") | _some_memory)
    return pod


_some_memory = st.dictionaries(st.sampled_from([*_MEMORY, "x"]), st.integers(0, 99) | _ODD)


@st.composite
def odd_samples(draw: st.DrawFn) -> bytes:
    """Samples that differ from the common kind in places, as bytes; good ones and bad ones."""
    fields = common()
    for name in draw(st.lists(st.sampled_from(sorted(NodeUsage.model_fields)), max_size=3)):
        fields[name] = draw(_ODD)
    if draw(st.booleans()):
        fields["pods"] = draw(st.lists(_some_pod(), max_size=4))
    if draw(st.booleans()):
        for pod in fields["pods"] if isinstance(fields["pods"], list) else ():
            if isinstance(pod, dict):
                pod["memory"] = draw(_some_memory | st.just(_MEMORY))
    if draw(st.booleans()):
        fields["memory"] = draw(_some_memory)
    if draw(st.booleans()):
        fields["source"] = draw(st.sampled_from(["kubelet", "", "a:b", None]) | _ODD)
    for part in ("usage", "system_usage"):
        if draw(st.booleans()):
            fields[part] = draw(
                st.dictionaries(
                    st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 99) | _ODD
                )
            )
    value = orjson.dumps(fields) if _fits(fields) else b"{}"
    if draw(st.booleans()):
        # A name twice in an object; which of both comes first differs.
        old = draw(st.sampled_from([b'"cpu":', b'"pods":', b'"usage":', b'"cluster":']))
        new = old + draw(st.sampled_from([b"1,", b"-1,", b'"x",', b"[],", b"{},"])) + old
        value = value.replace(old, new, 1)
    return value


def _fits(value: Any) -> bool:
    return not re.search(r"18446744073709551616", str(value))


@given(odd_samples())
@settings(max_examples=400, deadline=None)
def test_a_sample_that_is_decoded_is_the_one_that_its_class_makes(value: bytes) -> None:
    figures = decoded(value, known_node())
    if figures is not None:
        assert figures == by_contract(value)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"pool": "blue"},
        {"pods": []},
        {"interval_ms": 5, "host_applications": [], "system_usage": {"memory": 1}},
        {"usage": {"memory": 3}},
        {"pods": [pod_usage("b", 1), pod_usage("a", 2)]},
        {"pods": [pod_usage("a", 0, usage={"memory": 9, "cpu": 1}), pod_usage("b", 0, usage={"cpu": 1, "memory": 9})]},
        {"pods": [pod_usage("c", 1, priority_class="koord-prod")]},
        {"pods": [pod_usage("a", 1), pod_usage("a", 2)]},
        {"memory": _MEMORY, "pods": [pod_usage("b", 1, memory=_MEMORY), pod_usage("a", 2, memory=_MEMORY)]},
        {"memory": _OTHER, "pods": [pod_usage("a", 1, usage={"cpu": 1, "memory": 9}, memory=_OTHER)]},
        {"memory": {}, "usage": {"cpu": 3}},
        {"memory": _MEMORY, "usage": {"cpu": 3}},
        {"pods": [pod_usage("c", 1, priority_class="koord-prod", memory=_MEMORY)]},
        {"source": "kubelet_resource"},
        {"source": "Zähler der GPUs"},
        {"pods": [pod_usage("a", 1, memory=_MEMORY), pod_usage("b", 1)]},
        {"pods": [pod_usage("a", 1, memory=_MEMORY), pod_usage("b", 1, memory=_OTHER)]},
        {"pods": [pod_usage("a", 1, memory={})]},
        {"memory": None},
        {"source": "gpus: of the team"},
        {"host_applications": [{"name": "x", "usage": {"cpu": 1}}]},
    ],
)  # fmt: skip
def test_samples_of_known_names_are_decoded(fields: dict[str, Any]) -> None:
    value = orjson.dumps(common(**fields))
    figures = decoded(value, known_node())
    assert figures is not None
    assert figures == by_contract(value)


@pytest.mark.parametrize(
    "fields",
    [
        {"pods": [pod_usage("new", 1)]},
        {"pods": [pod_usage("a", 1), pod_usage("b", 1, priority_class="koord-prod")]},
        {"pods": [pod_usage("x", 1, namespace="", uid="", priority_class="")]},
        {"pods": [pod_usage("a", 1, memory={**_MEMORY, "extra": 5})]},
        {"pods": [pod_usage("a", 1, memory={_MEMORY_FIELD: True})]},
        {"memory": {**_MEMORY, "extra": 5}},
        {"memory": {_MEMORY_FIELD: -1}},
        {"pods": [pod_usage("a", 1, usage={"gpu": 1})]},
        {"pods": [pod_usage("a", 1, usage={"cpu": True})]},
        {"pods": [pod_usage("a", 1, usage={"cpu": 1.0})]},
        {"pods": [pod_usage("a", 1, usage={"cpu": -1})]},
        {"usage": {"gpu": 1}},
        {"usage": {"cpu": True}},
        {"pool": "a/b"},
        {"source": ""},
        {"source": 1},
        {"source": "x" * 254},
        {"node": "n1"},
        {"schema_version": True},
        {"schema_version": 2},
        {"sampled_at_ms": 5},
        {"interval_ms": -1},
        {"extra": [[[]]]},
    ],
)
def test_new_or_unusual_samples_are_decoded_by_their_class(fields: dict[str, Any]) -> None:
    assert decoded(orjson.dumps(common(**fields)), known_node()) is None


def test_a_forgotten_pod_is_decoded_by_its_class_again() -> None:
    node = known_node()
    value = orjson.dumps(common())
    assert decoded(value, node) is not None
    node.pods.drop(START_MS + 1)
    node.pods.drop_lifetimes()
    node.pods.prune()
    assert decoded(value, node) is None
