"""The aggregate stage: usage samples of nodes become averages and percentiles.

    node-usage ─▶ stage ─▶ reading ─▶ node (window, pods) ─▶ report ─▶ node-metrics
                    │
                    └─▶ rows ─▶ table node_percentiles ─▶ restore ─▶ stage

Keyed by cluster/node: every node is on its own, and a worker holds the nodes of its partitions. Time is
the samples' own; nothing here reads a clock.
"""
