"""LowNodeLoad: moves pods from nodes above high thresholds to nodes below low thresholds.

rounds      the round over all pools
pools       pools of the policy; thresholds by the time of the week; maps that Koordinator fills in
limits      thresholds as amounts, and the class of each node
counters    number of rounds in which each node has been hot
pool_round  one pool's part of a round: classifies and counts nodes
evictions   which pods leave the hot nodes of a pool, and their targets
order       order of hot nodes, and of the pods on them

loadstream's and Koordinator's rounds differ only by the rules of `streams.rebalance.differences`.
Source: docs/reference/upstream.md B; steps are its L1 to L11.
"""
