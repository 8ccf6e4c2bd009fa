"""What all nodes of a cluster go by: a policy's arguments, and what is expected of its pods."""

from collections.abc import Sequence

from schemas.messages.pods import Pod
from schemas.policy.overutilization import OverutilizationRiskArgs
from streams.inventory.demand import PodDemand
from streams.inventory.fleet_usage import SUMS_PER_RESOURCE, FleetUsage
from streams.inventory.need import FLAT, asked, nominal
from streams.inventory.priority import priority_class


class FleetInForce:
    """What all nodes of a cluster go by."""

    __slots__ = ("_least", "args", "figures", "recent_minutes", "resources")

    def __init__(self, args: OverutilizationRiskArgs, figures: tuple[FleetUsage, ...]) -> None:
        """Use these arguments and figures.

        Args:
            args: of the score by risk.
            figures: expected of pods that are not measured, by resource.
        """
        self.args = args
        self.figures = figures
        self.recent_minutes = args.recent_minutes
        """Within which what was used lately is forgotten; 0: it is not asked for."""
        self.resources = tuple(resource.name for resource in args.resources)
        self._least = tuple((each, max(1, FLAT.get(each, 0))) for each in self.resources)

    def needs(self, pod: Pod, demand: PodDemand) -> tuple[int, ...]:
        """What a pod says that it needs, by resource."""
        of_class = priority_class(pod, demand)
        return tuple([nominal(resource, demand, of_class) for resource in self.resources])

    def select_asked(self, sums: Sequence[int], pod: Pod, demand: PodDemand) -> Sequence[int]:
        """Return a pod's sums (`fleet_usage`), with 0 for resources of which it requests little.

        That is less than the default for pods without a request.
        """
        requests = demand.requests
        for resource, least in self._least:
            if requests.get(resource, 0) < least:
                break
        else:
            return sums
        of_class = priority_class(pod, demand)
        enough = [asked(resource, demand, of_class) >= least for resource, least in self._least]
        return [
            each if enough[index // SUMS_PER_RESOURCE] else 0 for index, each in enumerate(sums)
        ]
