"""What a node's metric says of the lives of its pods, and of what belongs to no pod."""

from collections.abc import Mapping, Sequence

from schemas.base.message import AMOUNT_MAX
from schemas.base.refusals import Refusal
from schemas.messages.metrics import NodeMetric
from streams.inventory.life import MINUTES_MAX, PARTS, Life


def uneven(metric: NodeMetric) -> Refusal | None:
    """A refusal if a column of the metric's lives has not one entry for each pod; names the first."""
    if metric.lives is None:
        return None
    columns: dict[str, Sequence[int]] = {"minutes": metric.lives.minutes}
    for part in ("mean", "deviation"):
        columns |= {f"{part}, {name}": each for name, each in getattr(metric.lives, part).items()}
    for name, column in columns.items():
        if len(column) != len(metric.pods):
            return Refusal(
                "invalid",
                f"lives, {name}: found {len(column)} entries; expected {len(metric.pods)}, one for each "
                "of pods",
            )
    return None


def lives_of(metric: NodeMetric, resources: Sequence[str]) -> dict[tuple[str, str], Life]:
    """Lives by namespace and name of pods; those that lack one of the resources are left out."""
    lives = metric.lives
    if lives is None or not lives.mean.keys() >= set(resources) <= lives.deviation.keys():
        return {}
    columns = [part[name] for name in resources for part in (lives.mean, lives.deviation)]
    found = {}
    for pod, minutes, *figures in zip(metric.pods, lives.minutes, *columns, strict=True):
        if minutes and min(figures, default=0) >= 0:
            amounts = [min(each, AMOUNT_MAX) * PARTS for each in figures]
            found[pod.namespace, pod.name] = (min(minutes, MINUTES_MAX), *amounts)
    return found


def system_usage(metric: NodeMetric, resources: Sequence[str], *, whole: bool) -> list[int]:
    """What the system part used, by resource in units; `whole`: that is all of the node.

    Of a resource of which the metric lacks it, it is what the node used and none of its pods.
    """
    usage: Mapping[str, int] = metric.usage or {}
    if whole:
        return [usage.get(name, 0) for name in resources]
    parts = [metric.system_usage, *(each.usage for each in metric.host_applications)]
    return [
        min(sum(part.get(name, 0) for part in parts), AMOUNT_MAX)
        if name in metric.system_usage or name not in usage
        else max(0, usage[name] - sum(pod.usage.get(name, 0) for pod in metric.pods))
        for name in resources
    ]
