"""Rebalancing: which pods should leave which nodes, and in which order.

balancer       entry point: makes rounds for the cluster stage
candidates     a pod that may leave, and the rules that may stop it
inputs         inputs of a round
outcome        results of a round
thresholds     rounds by thresholds: LowNodeLoad
risk           moves that lower the risk of overutilization most
differences    deliberate differences from Koordinator's rounds
columns        figures of all nodes as arrays
node_figures   figures of one node, and its pods
eviction_keys  sort keys of pods for eviction
targets        which nodes can run a pod, and their room
"""
