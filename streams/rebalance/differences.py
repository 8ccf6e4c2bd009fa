"""Where rounds by thresholds differ from Koordinator's on purpose, switched by `compat`.

One engine makes both kinds of rounds. Each field names one rule: true is ours, false is what
Koordinator's LowNodeLoad does. Numbers such as X17 are those of docs/reference/upstream.md.
"""

from dataclasses import dataclass

from schemas.policy import Compat


@dataclass(frozen=True, slots=True)
class Differences:
    """Our rules. Without them a round is Koordinator's, as the golden cases have it."""

    live_usage: bool
    """Usage is that of pods that are there and of host applications (X17); Koordinator counts every
    pod that the metric names, and no host applications. Reserved room is not used yet."""
    known_usage_only: bool
    """Missing is not zero: the usage of the whole node stands in for parts that a metric lacks, a
    node is not judged by a resource of which nothing is known, and a pod stays if its usage is not
    known or it uses nothing of what is over."""
    unknown_without_capacity: bool
    """Capacity 0 is unknown: a node that uses a resource of which it has none is not judged, and a
    mean leaves out nodes without capacity. To Koordinator any usage of it is over, and 0 % in a mean."""
    merged_capacity: bool
    """The raw allocatable is merged over the allocatable (X21); Koordinator's takes its place."""
    first_match_pools: bool
    """A node belongs to the first pool that selects it (X18); Koordinator's pools overlap."""
    thresholds_as_given: bool
    """A resource without a threshold is not limited, and by deviation 0 is a threshold (X14, X15).
    Koordinator fills in 100 %, in maps that pools share, and by deviation 0 switches off. Resources
    without a weight weigh 1 to us, nothing to Koordinator."""
    consecutive_counts: bool
    """A node acts after N hot rounds in a row until N calm ones (X10 to X13). Koordinator needs
    N + 1 marks, which add up, and stops a fixed time after the node began to act."""
    leaving_pods_are_gone: bool
    """What pods use that leave already counts as gone from the start."""
    planned_targets: bool
    """Each move is planned onto one target with room, which it takes (X19). Koordinator has one
    room for all targets; its nodeFit takes room for every pod that fits, evicted or not, and looks
    at requests of 0, but not at the number of pods."""
    avoided_nodes: bool
    """Nodes that ask for no more pods by a taint, or are about to be removed, are no targets."""
    order_by_uid: bool
    """Equal pods leave in the order of their uids, not in that in which they came; pods that prefer
    no eviction come last where the policy says so."""
    cooled_moves_end: bool
    """A round says how any node stands, so that moves from a node that has cooled are given up."""


LOADSTREAM = Differences(*[True] * 12)
KOORDINATOR = Differences(*[False] * 12)


def differences_of(compat: Compat) -> Differences:
    """The rules of a policy's `compat`."""
    return KOORDINATOR if compat == "koordinator" else LOADSTREAM
