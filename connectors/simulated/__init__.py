"""Clusters that are not there: what machines use, which pods come, and what becomes of them.

    load, replay ──▶ readings of machines ──┐
    workload, openb ──▶ pods that arrive ───┼─▶ kubelet ──▶ samples, lifecycles, outcomes
    machine ──▶ this very machine ──────────┘

The same seed gives the same cluster, the same load and the same pods; only the readings of this very
machine differ from run to run. Nothing here speaks to Kafka.
"""
