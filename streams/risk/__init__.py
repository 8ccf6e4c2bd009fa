"""Statistics of usage, and the cost of a node that may be overutilized.

lifetimes        usage of one pod over its lifetime, and its recent average
usage_shares     the share of one pod in mean and variance of its node
node_statistics  lifetimes of the pods of one node, and mean and variance of its usage
fleet_usage      usage of all pods as shares of their requests: the estimate for unmeasured pods
overutilization  cost of mean and variance: probability of being hot, and expected excess
normal_table     the normal distribution, with the same values on every machine
"""
