"""Statistics of usage, and the cost of a node that may be overutilized. Pure.

lifetimes        usage of one pod over its lifetime, and its recent average
usage_shares     what one pod adds to mean and variance of its node
node_statistics  lifetimes of the pods of one node, and mean and variance that follow
fleet_usage      what the pods of a cluster use of their requests: expected of unmeasured pods
overutilization  cost of mean and variance: the probability of being hot, and the expected excess
normal_table     the normal distribution, the same numbers on every processor
"""
