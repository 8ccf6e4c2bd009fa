"""Rebalancing: from a cluster's inventory to "these pods should leave these nodes, in this order".

balancer     what the cluster stage calls
candidates   a pod whose turn to leave has come, and what a round asks before it leaves
inputs       what a round is given
outcome      what a round has found and planned
thresholds   rounds by thresholds: LowNodeLoad
risk         moves that lower the risk of overutilization most
differences  where rounds by thresholds differ from Koordinator's
columns      all nodes as arrays, packed when something changes
node_arrays  one node's figures
packed_pods  the pods of a node
costs        keys by which pods are ordered for eviction, once a pod
fit          which nodes may run a pod

Everything is a function of the records applied: no clock but the log's, no order of a set.
"""
