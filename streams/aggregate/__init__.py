"""The aggregate stage: turns usage samples of nodes into averages and percentiles.

    node-usage ─▶ stage ─▶ intake ─▶ samples ─▶ node (window, pods) ─▶ report ─▶ node-metrics
                    │
                    ├─▶ collect_policies (windows of each cluster)
                    └─▶ rows ─▶ table node_percentiles ─▶ restore ─▶ stage

The key of a node is cluster/node. Nodes do not depend on each other, so a worker needs only the nodes of its
partitions. Time is the time of the samples; the stage does not read a clock. Collect policies are records
between the samples, written by the cluster stage.

stage             applies records; returns node metrics and changed rows; isolates failures to one node
intake            applies samples and collect policies
samples           decodes samples, and extracts their figures by the collect policy
collect_policies  collect policies of the clusters, and limits of the stage
partition         nodes, clock, position and rows of a partition
node              windows of one node
window            samples of one node, ordered by time
pods              figures of the pods and host applications of one node
lifetimes         usage of pods over their lifetimes
percentile        means and nearest-rank percentiles
report            the node metric of a node's windows
rows              rows of table `node_percentiles`
restore           restores a partition from its rows
"""
