"""Benchmarks: `python -m benchmarks [NAME]` prints one JSON object a figure.

    figures     what a figure is, the registry, timing
    clusters    synthetic clusters, put together through the records that the agent would apply
    placement   choosing a node: a new kind of pod, and one more of a known kind
    rebalance   a round of rebalancing: who is hot, who leaves, and where to

Figures are medians over many repetitions; nothing here fails because a machine is slow. What is
computed is checked inside each benchmark against the plain way of computing it.
"""
