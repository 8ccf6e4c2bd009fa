"""Expected usage of nodes, as Koordinator computes it (docs/reference/upstream.md A).

node_usage          usage of one node: its metric, and estimates of its pods
metric              a node metric as vectors over the policy's resources
estimate            expected usage of a pod that has not been measured
thresholds          usage thresholds of a node, by the time of the week, and the usage that they allow
missing_usage       usage that a policy needs and a metric lacks
vectors             amounts over the policy's resources
go_json             JSON as Go decodes it into typed values
rounding            Go's arithmetic, where results depend on it
"""
