"""A picture of the nodes: the CPU that was used on each when some were hot, and at the end."""

from collections.abc import Mapping
from pathlib import Path

from simulation.kubernetes_demo.load import NODE_MILLICORES
from simulation.kubernetes_demo.story import HOT_PERCENT


def draw(path: Path, before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Write a PNG; nodes stand in the order of their CPU before."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    nodes = sorted({*before, *after}, key=lambda node: (-before.get(node, 0), node))
    figure, axes = plt.subplots(figsize=(10, 4))
    places = range(len(nodes))
    for values, name, size in ((before, "when nodes were hot", 14), (after, "at the end", 8)):
        shares = [100 * values.get(node, 0) / NODE_MILLICORES for node in nodes]
        axes.scatter(places, shares, s=size, label=name)
    axes.axhline(HOT_PERCENT, linewidth=0.8, linestyle="--", color="grey")
    axes.set_xlabel("nodes, by CPU when some were hot")
    axes.set_ylabel("CPU used, % of the node")
    axes.set_ylim(0, 105)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
