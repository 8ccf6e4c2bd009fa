from connectors.agent.files import parse_pairs
from connectors.agent.memory import (
    Memory,
    build_cgroup_readings,
    build_node_readings,
)

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


def test_a_cgroup_of_v1_has_those_of_all_below_it() -> None:
    total = "".join(f"total_{line}\n" for line in _V2.splitlines())
    own = "inactive_anon 1\nactive_anon 1\ninactive_file 1\nactive_file 1\nunevictable 1\n"
    readings = build_cgroup_readings(parse_pairs(own + total))
    assert readings is not None
    assert readings.usage_without_page_cache_bytes == 35
    assert readings.usage_with_page_cache_bytes == 735
