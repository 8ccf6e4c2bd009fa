"""What exists in a cluster: nodes and pods, with their usage and statistics.

Takes in node states, pod lifecycles and node metrics; placement and rebalancing read. Changes are
noted once, for arrays over nodes and for table rows. Pure: the time is that of the last tick.

inventory       nodes and pods of one cluster; its policy, time and pause
node            one node, its pods, usage and statistics
node_index      places of nodes in arrays, and a log of their changes
pod_events      what a pod's lifecycle record changes: room is taken, moved or given back
full_lists      full lists of nodes and pods: what a list lacks is gone
freshness       which nodes have a fresh metric with the statistics that the policy uses
record_numbers  numbers of applied records, places of the pods that they take in
"""
