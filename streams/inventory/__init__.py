"""Nodes and pods of a cluster, with their usage and statistics.

The inventory applies node states, pod lifecycle records and node metrics. Placement and rebalancing read it. It
records changes for arrays over nodes and for table rows. Its time is that of the last clock tick.

inventory       nodes and pods of one cluster; its policy, time and pause
node            one node with its pods, usage and statistics
node_index      rows of nodes in arrays, and a log of their changes
pod_index       pods by controller, and anti-affinity
pod_events      applies lifecycle records: a pod gets room, moves, or releases its room
full_lists      full lists of nodes and pods: objects that are missing in a list are gone
freshness       counts of nodes with a fresh metric, and of usage that is missing in metrics
record_numbers  numbers applied records, and pods in the order of their arrival
"""
