"""LowNodeLoad: moves pods from nodes above high thresholds to nodes below low thresholds.

rounds      the round over all pools
pools       pools of the policy, their thresholds by time of the week, and maps that Koordinator fills in
limits      thresholds as amounts, and the class of each node
counters    numbers of hot and calm rounds of each node
pool_round  one pool's part of a round: classifies nodes, and counts their hot and calm rounds
evictions   which pods leave the hot nodes of a pool, and their targets
order       order of hot nodes, and of the pods on them

loadstream's and Koordinator's rounds differ only by the rules of `streams.rebalance.differences`.
Source: docs/reference/upstream.md, section B; L1 to L11 are its steps.
"""
