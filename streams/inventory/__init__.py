"""What exists in a cluster: nodes and pods, with their usage and statistics.

It applies node states, pod lifecycle records and node metrics; placement and rebalancing read it. Changes
are recorded for arrays over nodes and for table rows. The time is that of the last clock tick.

inventory       nodes and pods of one cluster; its policy, time and pause
node            one node with its pods, usage and statistics
node_index      rows of nodes in arrays, and a log of their changes
pod_index       pods by controller, anti-affinity, and end of reservation
pod_events      applies lifecycle records: a pod gets room, moves, or releases its room
full_lists      full lists of nodes and pods: objects that a list lacks are gone
freshness       which nodes have a fresh metric, and what the metrics lack
record_numbers  numbers of applied records, and of pods in the order of their arrival
"""
