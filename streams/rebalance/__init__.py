"""Rebalancing: from a cluster's inventory to "these pods should leave these nodes, in this order".

balancer            what the cluster stage calls
inputs              what a round is given
outcome             what a round found and planned
balance             a round as loadstream makes it
pool_turn           one pool's part of it: nodes classed and counted
pool_readings       how nodes stand against the high thresholds of their pool
planning            hot nodes in turn: which pods leave, and where to
risk_moves          moves that lower the risk of overutilization most
risk_pods           pods of nodes at risk, the one first whose move may gain most
risk_nodes          what nodes cost by that risk, as planned moves change them
risk_readings       how nodes stand against the shares from which they are hot
risk_record         what such a round has found and planned
koordinator         a round as Koordinator makes it (`compat: koordinator`)
columns             all nodes as arrays, packed when something changes
node_arrays         one node's figures
packed_pods         the pods of a node, in the order of eviction
costs               keys by which pods are ordered, once a pod
pools               pools by a policy: thresholds, limits, classes of nodes
dynamic_thresholds  thresholds by the time of the week, or by the recent past
history_table       the row of usage history
counters            for how many rounds in a row a node has been hot
counted             what counts survive a change of policy
order               which hot node comes first, and which of its pods
hot_pods            the pods of all hot nodes in flat lists
looks               how many pods one round looks at
targets             room on the nodes that can take pods
fit                 which of them may run a pod

Everything is a function of the records applied: no clock but the log's, no order of a set.
"""
