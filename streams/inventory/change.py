"""What about a node has changed: for whatever keeps arrays over the nodes."""

from typing import Final


class Change:
    """What about a node has changed, as bits; plain numbers, since every change looks at them."""

    STATE: Final = 1
    """What Kubernetes says: allocatable, labels, annotations, taints, unschedulable."""
    PODS: Final = 2
    """The pods held there."""
    METRIC: Final = 4
    """Its usage, or whether that is fresh."""
    FLEET: Final = 8
    """By what its usage is worked out: what the cluster's pods use of their requests, of all nodes at
    once."""
    ALL: Final = 15
