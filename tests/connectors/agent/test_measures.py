"""CPU time and memory from the files of the kernel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.agent.files import parse_pairs
from connectors.agent.measures import (
    CpuReading,
    CpuTimes,
    Memory,
    build_cgroup_readings,
    build_node_readings,
    compute_millicores,
    parse_cpu_stat,
    parse_cpu_times,
)

_NS = st.integers(0, 2**62)


def test_iowait_and_steal_do_not_count_and_guest_time_counts_once() -> None:
    text = "cpu  100 10 50 800 40 5 5 2 70 7\ncpu0 1 1 1 1\n"
    assert parse_cpu_times(text) == CpuTimes(used=170, total=1012, cores=1)


@pytest.mark.parametrize("text", ["", "cpu0 1 2 3 4", "cpu 1 2", "intr 5"])
def test_a_file_in_another_format_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a line that begins with cpu"):
        parse_cpu_times(text)


@pytest.mark.parametrize("text", ["user_usec 5\n", "usage_usec\n", "usage_usec x\n"])
def test_a_missing_counter_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"usage_usec|invalid literal"):
        parse_cpu_stat(text)


@given(
    before=_NS, cores=st.integers(0, 1024), at=_NS, ms=st.integers(1, 3_600_000), off=st.integers()
)
def test_the_rate_of_a_steady_load_does_not_depend_on_the_first_reading(
    before: int, cores: int, at: int, ms: int, off: int
) -> None:
    passed_ns = ms * 1_000_000
    now = CpuReading(before + cores * passed_ns, at + passed_ns)
    assert compute_millicores(CpuReading(before, at), now) == cores * 1_000


@given(first=_NS, second=_NS, at=_NS, passed=st.integers(-(2**40), 2**40))
def test_a_rate_is_never_negative_and_is_missing_rather_than_zero(
    first: int, second: int, at: int, passed: int
) -> None:
    rate = compute_millicores(CpuReading(first, at), CpuReading(second, at + passed))
    if second < first or passed <= 0:
        assert rate is None
    else:
        assert rate is not None
        assert rate >= 0
        assert abs(rate * passed - 1_000 * (second - first)) <= passed / 2


@given(
    steps=st.lists(st.tuples(st.integers(0, 10**10), st.integers(1, 10**10)), min_size=1),
)
def test_rates_of_parts_of_an_interval_add_up_to_the_used_time(
    steps: list[tuple[int, int]],
) -> None:
    spent = at = 0
    total = 0.0
    before = CpuReading(0, 0)
    for more, passed in steps:
        spent, at = spent + more, at + passed
        rate = compute_millicores(before, CpuReading(spent, at))
        assert rate is not None
        total += rate * passed / 1_000
        before = CpuReading(spent, at)
    assert abs(total - spent) <= at / 2_000 + 1


_V2 = (
    "anon 1\ninactive_anon 10\nactive_anon 20\ninactive_file 300\nactive_file 400\nunevictable 5\n"
)


def test_a_node_has_the_readings_of_the_collect_policies() -> None:
    readings = build_node_readings(Memory(total=100, available=60, free=20))
    assert readings.usage_without_page_cache_bytes == 40
    assert readings.usage_with_page_cache_bytes == 80


def test_a_cgroup_of_v2_has_its_lists() -> None:
    readings = build_cgroup_readings(parse_pairs(_V2))
    assert readings is not None
    assert readings.usage_without_page_cache_bytes == 35
    assert readings.usage_with_page_cache_bytes == 735


def test_a_cgroup_of_v1_includes_the_lists_of_its_children() -> None:
    total = "".join(f"total_{line}\n" for line in _V2.splitlines())
    own_values = "inactive_anon 1\nactive_anon 1\ninactive_file 1\nactive_file 1\nunevictable 1\n"
    readings = build_cgroup_readings(parse_pairs(own_values + total))
    assert readings is not None
    assert readings.usage_without_page_cache_bytes == 35
    assert readings.usage_with_page_cache_bytes == 735
