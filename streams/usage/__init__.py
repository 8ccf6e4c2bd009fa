"""Expected usage of nodes, as Koordinator computes it (docs/reference/upstream.md A). Pure.

node_usage          usage of one node: its metric, and estimates of its pods
metric              a node metric as vectors over the policy's resources
estimate            what a pod is expected to use before it has been measured
thresholds          usage thresholds of a node, and the most that they allow
moving_thresholds   thresholds that follow the time of the week or the recent past
missing_usage       what a policy looks at and a node's metric lacks
vectors             amounts over the policy's resources, and their sums
go_json             JSON as Go decodes it into typed values
rounding            Go's arithmetic, where it decides
"""
