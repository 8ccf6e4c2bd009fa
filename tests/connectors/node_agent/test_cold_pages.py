import pytest

from connectors.node_agent.cold_pages import parse_cold_bytes

#: As kidled's documentation shows it.
STATS = """\
# version: 1.0
# page_scans: 24
# slab_scans: 0
# scan_period_in_seconds: 120
# use_hierarchy: 1
# buckets: 1,2,5,15,30,60,120,240
#
#   _-----=> clean/dirty
#  / _----=> swap/file
# | / _---=> evict/unevict
# || / _--=> inactive/active
# ||| / _-=> slab
# |||| /
# |||||             [1,2)          [2,5)         [5,15)
  csei            2613248        4657152              0
  dfua                  0              1              2
  slab                  4              0              0
"""


def test_all_idle_pages_are_cold() -> None:
    assert parse_cold_bytes(STATS) == 2_613_248 + 4_657_152 + 7


@pytest.mark.parametrize(
    ("old", "new"), [("seconds: 120", "seconds: 0"), ("hierarchy: 1", "hierarchy: 0")]
)
def test_a_kernel_that_does_not_scan_all_knows_nothing(old: str, new: str) -> None:
    assert parse_cold_bytes(STATS.replace(old, new)) is None


def test_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match="expected lines such as csei"):
        parse_cold_bytes("cache 5\n")
