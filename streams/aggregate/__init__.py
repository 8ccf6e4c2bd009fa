"""The aggregate stage: usage samples of nodes become averages and percentiles.

    node-usage ─▶ stage ─▶ intake ─▶ reading ─▶ node (window, pods) ─▶ report ─▶ node-metrics
                    │
                    ├─▶ policies (which windows a cluster has)
                    └─▶ rows ─▶ table node_percentiles ─▶ restore ─▶ stage

Collect policies come from the cluster stage, as records between the samples. Keyed by cluster/node:
every node is on its own, and a worker holds the nodes of its partitions. Time is the samples' own;
nothing here reads a clock.

    stage            records in; node metrics and rows out; a defect touches one node
    intake           takes samples and collect policies in
    known_sample     decodes samples of known nodes and pods faster than their schema does
    reading          what a sample says under its node's collect policy
    collect          collect policies as the stage reads them, and the stage's limits
    policies         the collect policies of the clusters, and their changes
    partition        the nodes of a partition, their rows, how far its input was applied
    partition_clock  the time of a partition: the median of its newest samples
    node             what is kept of one node
    window           the samples of one node, in the order of their times
    pods             figures of the pods and host applications of one node
    lifetimes        usage of pods over their lifetimes, extended once in a window
    percentile       means and nearest-rank percentiles
    report           the node metric of a node's windows
    packed_column    a column of numbers as text, with as many bits as the largest needs
    rows             what is kept in table `node_percentiles`
    restore          the state of a partition from its rows
    regroup          samples of rows, put back together by node
"""
