"""What all nodes of a cluster go by: a policy's arguments, and what is expected of its pods."""

from schemas.pods import Pod
from schemas.policy.overutilization import OverutilizationRiskArgs
from streams.inventory.demand import PodDemand
from streams.inventory.estimate import forms_of, nominal
from streams.inventory.fleet_usage import Fleet
from streams.inventory.owner_usage import OwnerUsage
from streams.inventory.priority import priority_class


class FleetInForce:
    """What all nodes of a cluster go by."""

    __slots__ = ("args", "figures", "forms", "owners", "resources")

    def __init__(self, args: OverutilizationRiskArgs, figures: tuple[Fleet, ...]) -> None:
        self.args = args
        self.resources = tuple(resource.name for resource in args.resources)
        self.forms = tuple(map(forms_of, self.resources))
        """Names under which pods ask for each of them."""
        self.figures = figures
        self.owners = OwnerUsage(len(self.resources)) if args.profiles == "owner" else None
        """What is expected of the pods of each owner; none: the policy goes by the fleet alone."""

    def needs(self, pod: Pod, demand: PodDemand) -> tuple[int, ...]:
        """What a pod says that it needs, by resource."""
        of_class = priority_class(pod, demand)
        return tuple([nominal(resource, demand, of_class) for resource in self.resources])
