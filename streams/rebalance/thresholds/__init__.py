"""LowNodeLoad: nodes above high thresholds shed pods to nodes below low ones.

rounds         the round over all pools
pools          pools by the policy; threshold maps that Koordinator fills in
moving         thresholds by the time of the week, or by the recent past
limits         thresholds as amounts, and the class of each node
counters       for how many rounds each node has been hot
pool_round     one pool's part of a round: nodes classed and counted
evictions      which pods leave its hot nodes, and where to
order          which hot node comes first, and which of its pods
targets        room on the nodes that take pods
history_table  the row of usage history

Ours and Koordinator's rounds differ by the rules of `streams.rebalance.differences` alone. Source:
docs/reference/upstream.md B; steps are its L1 to L11.
"""
