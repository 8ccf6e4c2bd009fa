"""Deliberate differences between loadstream's rounds by thresholds and Koordinator's.

One engine makes both kinds of rounds, and the policy's `compat` selects the rules. Each field is one
rule: true for loadstream's, false for that of Koordinator's LowNodeLoad. Numbers such as X17 refer to
docs/reference/compat.md.
"""

from dataclasses import dataclass

from schemas.policy import Compat


@dataclass(frozen=True, slots=True)
class Differences:
    live_usage: bool
    """Usage is that of existing pods and of host applications (X17), and reserved room counts as
    expected, not as used. Koordinator counts every pod in the metric, and no host applications."""
    known_usage_only: bool
    """Missing is not zero: the node's usage replaces missing parts of a metric, an unknown resource makes
    a node neither hot nor low, and a pod stays if its usage is unknown or would not relieve the node."""
    unknown_without_capacity: bool
    """Usage of a resource without capacity is unknown, and means leave out nodes without capacity. In
    Koordinator such usage exceeds the threshold, and is 0 % in means."""
    merged_capacity: bool
    """Raw allocatable is merged into allocatable (X21); in Koordinator it replaces allocatable."""
    first_match_pools: bool
    """A node belongs to the first pool that selects it (X18); Koordinator's pools overlap."""
    thresholds_as_given: bool
    """A resource without a threshold is not limited, 0 is a threshold by deviation (X14, X15), and
    resources without a weight weigh 1. Koordinator fills in 100 % in maps that pools share, 0 switches
    thresholds by deviation off, and resources without a weight do not count."""
    consecutive_counts: bool
    """Pods leave after N hot rounds in a row, until N calm rounds in a row (X10 to X13). Koordinator
    needs N + 1 hot rounds, not in a row, and stops a fixed time after evictions began."""
    leaving_pods_are_gone: bool
    """Usage of pods that are already leaving counts as gone."""
    planned_targets: bool
    """Each move is planned to one target, and uses its room (X19). Koordinator adds up the room of all
    targets; its nodeFit uses room for every pod that fits, evicted or not, checks requests of 0, and
    does not check the number of pods."""
    avoided_nodes: bool
    """Nodes with a taint PreferNoSchedule, or about to be removed, are no targets."""
    order_by_uid: bool
    """Equal pods leave in the order of uids, not of arrival; pods that prefer no eviction come last if
    the policy says so."""
    cooled_moves_end: bool
    """Migrations from a node that has cooled are aborted."""


LOADSTREAM = Differences(*[True] * 12)
KOORDINATOR = Differences(*[False] * 12)


def get_differences(compat: Compat) -> Differences:
    return KOORDINATOR if compat == "koordinator" else LOADSTREAM
