"""The aggregate stage: usage samples of nodes become averages and percentiles.

    node-usage ─▶ stage ─▶ reading ─▶ node (window, pods) ─▶ report ─▶ node-metrics
                    │
                    ├─▶ policies (which windows a cluster has)
                    └─▶ rows ─▶ table node_percentiles ─▶ restore ─▶ stage

Collect policies come from the cluster stage, as records between the samples. Keyed by cluster/node:
every node is on its own, and a worker holds the nodes of its partitions. Time is the samples' own;
nothing here reads a clock.
"""
