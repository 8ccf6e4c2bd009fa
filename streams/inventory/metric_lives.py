"""What a node's metric says of the lives of its pods, and of what belongs to no pod."""

from collections.abc import Mapping, Sequence

from schemas.base import AMOUNT_MAX
from schemas.metrics import NodeMetric
from streams.inventory.life import MINUTES_MAX, PARTS, Life


def says_lives(metric: NodeMetric) -> bool:
    """It says of some pod what that used over its life."""
    return any(pod.life is not None for pod in metric.pods)


def lives_of(metric: NodeMetric, resources: Sequence[str]) -> dict[tuple[str, str], Life]:
    """Lives by namespace and name of pods; those that lack one of the resources are left out."""
    said: dict[tuple[str, str], Life] = {}
    for pod in metric.pods:
        life = pod.life
        if life is not None and life.mean.keys() >= set(resources) <= life.deviation.keys():
            figures = [min(life.minutes, MINUTES_MAX)]
            for name in resources:
                figures += (
                    min(life.mean[name], AMOUNT_MAX) * PARTS,
                    min(life.deviation[name], AMOUNT_MAX) * PARTS,
                )
            said[pod.namespace, pod.name] = tuple(figures)
    return said


def system_usage(metric: NodeMetric, resources: Sequence[str], *, whole: bool) -> list[int]:
    """What the system part used, by resource in units; `whole`: that is all of the node."""
    if whole:
        usage: Mapping[str, int] = metric.usage or {}
        return [usage.get(name, 0) for name in resources]
    parts = [metric.system_usage, *(each.usage for each in metric.host_applications)]
    return [min(sum(part.get(name, 0) for part in parts), AMOUNT_MAX) for name in resources]
