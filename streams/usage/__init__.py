"""Expected usage of nodes, as Koordinator computes it (docs/reference/upstream.md A).

node_usage          expected usage of one node: its metric, and estimates of pods
metric              a node metric as vectors over the policy's resources
estimate            expected usage of a pod that has not been measured
thresholds          usage thresholds of a node, and the largest usage that they allow
missing_usage       usage that a policy needs and a metric lacks
vectors             amounts over the policy's resources
go_json             decodes JSON as Go does
rounding            rounds and compares percentages as Go does
"""
