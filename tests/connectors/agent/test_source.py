"""The agent on file trees of both cgroup versions and both drivers, and on this machine."""

import itertools
from pathlib import Path
from shutil import rmtree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.agent.source import AgentSource, NodePaths
from connectors.process import wall_clock
from schemas.messages.usage import NodeUsage, PodUsage
from tests.connectors.agent.trees import (
    MIB,
    UID_A,
    UID_B,
    UID_STATIC,
    Driver,
    NodeFiles,
    Version,
)

_S = 1_000_000_000


class _Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ns = 7

    def __call__(self) -> int:
        return self.now_ns


class _Node:
    """A node with its files, its clock and its agent."""

    def __init__(self, root: Path, version: Version = "v2", driver: Driver = "systemd") -> None:
        self.files = NodeFiles(root, version, driver)
        self.clock = _Clock()

    def agent(self) -> AgentSource:
        places = NodePaths(self.files.proc, self.files.cgroup, self.files.pod_logs)
        return AgentSource("c", "n", places, self.clock)


def _pods(sample: NodeUsage) -> dict[str, PodUsage]:
    return {pod.uid: pod for pod in sample.pods}


@pytest.mark.parametrize(
    ("version", "driver"),
    list(itertools.product(("v1", "v2", "hybrid"), ("systemd", "cgroupfs"))),
)
def test_a_sample_has_the_node_and_its_pods(
    tmp_path: Path, version: Version, driver: Driver
) -> None:
    node = _Node(tmp_path, version, driver)
    a, b = node.files.pod_path(UID_A, "burstable"), node.files.pod_path(UID_STATIC, "")
    node.files.name(UID_A, "shop", "web-1")
    node.files.name(UID_STATIC, "kube-system", "etcd-n")
    node.files.write(a, 5 * _S, 100 * MIB, 50 * MIB)
    node.files.write(b, 9 * _S, 10 * MIB, 5 * MIB)
    agent = node.agent()
    node.clock.now_ns += 10 * _S
    node.files.tick(user=1_500, steal=900)
    node.files.write(a, 5 * _S + 2_500_000_000, 120 * MIB, 60 * MIB)
    node.files.write(b, 9 * _S, 10 * MIB, 5 * MIB)
    sample = agent.sample()
    assert sample.interval_ms == 10_000
    assert sample.usage == {"cpu": 1_500, "memory": 400_000 * 1024}
    assert sample.memory is not None
    assert sample.memory.usage_with_page_cache_bytes == 800_000 * 1024
    assert sample.system_usage is None
    assert sample.source == "agent"
    assert [(pod.namespace, pod.name, pod.uid) for pod in sample.pods] == [
        ("kube-system", "etcd-n", UID_STATIC),
        ("shop", "web-1", UID_A),
    ]
    usages = _pods(sample)
    assert usages[UID_A].usage == {"cpu": 250, "memory": 120 * MIB}
    readings = usages[UID_A].memory
    assert readings is not None
    assert readings.usage_with_page_cache_bytes == 180 * MIB
    assert usages[UID_STATIC].usage == {"cpu": 0, "memory": 10 * MIB}
    assert not agent.files.failures


def test_new_pods_have_no_cpu_at_first_and_removed_pods_are_left_out(tmp_path: Path) -> None:
    node = _Node(tmp_path)
    a, b = node.files.pod_path(UID_A, ""), node.files.pod_path(UID_B, "burstable")
    node.files.name(UID_A, "shop", "a")
    node.files.name(UID_B, "shop", "b")
    node.files.write(a, _S, 8 * MIB, 4 * MIB)
    agent = node.agent()
    node.clock.now_ns += _S
    node.files.write(b, _S, 8 * MIB, 4 * MIB)
    rmtree(node.files.cgroup / a)
    sample = agent.sample()
    assert {pod.name: dict(pod.usage) for pod in sample.pods} == {"b": {"memory": 8 * MIB}}
    assert not agent.files.failures


def test_a_rate_is_the_mean_between_two_successful_readings(tmp_path: Path) -> None:
    node = _Node(tmp_path)
    path = node.files.pod_path(UID_A, "")
    node.files.name(UID_A, "shop", "a")
    node.files.write(path, _S, 8 * MIB, 4 * MIB)
    agent = node.agent()
    counter = node.files.cgroup / path / "cpu.stat"
    text = counter.read_text()
    counter.write_text("?")
    node.clock.now_ns += _S
    assert _pods(agent.sample())[UID_A].usage == {"memory": 8 * MIB}
    assert agent.files.failures["pods"] == 1
    counter.write_text(text)
    node.clock.now_ns += _S
    assert "cpu" not in _pods(agent.sample())[UID_A].usage


def test_unreadable_values_of_a_node_are_missing(tmp_path: Path) -> None:
    node = _Node(tmp_path)
    agent = node.agent()
    node.clock.now_ns += _S
    (node.files.proc / "stat").write_text("?")
    sample = agent.sample()
    assert (dict(sample.usage), sample.interval_ms) == ({"memory": 400_000 * 1024}, 0)
    assert agent.files.failures["node"] == 1


def test_a_node_of_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    node = _Node(tmp_path)
    agent = node.agent()
    for name in ("stat", "meminfo"):
        (node.files.proc / name).write_text("?")
    with pytest.raises(OSError, match="cannot read any usage of the node"):
        agent.sample()
    with pytest.raises(OSError, match="cannot read any usage of the node"):
        node.agent()


def test_a_node_without_a_clock_is_measured_once_it_has_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = _Node(tmp_path)
    agent = node.agent()
    node.clock.now_ns += _S
    with monkeypatch.context() as patched:
        patched.setattr(wall_clock, "now_ms", lambda: 9_000)
        with pytest.raises(OSError, match="the clock says 1970; expected 2000 to 2100"):
            agent.sample()
    node.clock.now_ns += _S
    assert agent.sample().interval_ms == 2_000


@given(
    looks=st.lists(
        st.dictionaries(
            st.sampled_from([UID_A, UID_B, UID_STATIC]), st.integers(0, 10 * _S), max_size=3
        ),
        min_size=1,
        max_size=6,
    )
)
def test_a_pod_has_cpu_only_after_two_readings_of_one_counter(
    tmp_path_factory: pytest.TempPathFactory, looks: list[dict[str, int]]
) -> None:
    node = _Node(tmp_path_factory.mktemp("node"))
    for uid in (UID_A, UID_B, UID_STATIC):
        node.files.name(uid, "shop", uid)
    agent = node.agent()
    before: dict[str, int] = {}
    for counters in looks:
        rmtree(node.files.cgroup / "kubepods.slice", ignore_errors=True)
        for uid, spent_ns in counters.items():
            node.files.write(node.files.pod_path(uid, ""), spent_ns, 8 * MIB, 4 * MIB)
        node.clock.now_ns += _S
        usages = _pods(agent.sample())
        assert set(usages) == set(counters)
        for uid, pod in usages.items():
            spent_ns = counters[uid] // 1_000 * 1_000
            has_rate = uid in before and before[uid] <= spent_ns
            assert ("cpu" in pod.usage) == has_rate
            if has_rate:
                assert abs(pod.usage["cpu"] - (spent_ns - before[uid]) / 1_000_000) <= 0.5
        before = {uid: spent_ns // 1_000 * 1_000 for uid, spent_ns in counters.items()}
