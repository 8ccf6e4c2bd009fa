"""How many pods may move, and the cluster's objects on which limits and protections depend.

round_limits        how many pods one round may evict
concurrency_limits  how many pods may move at once
rate_limits         how many pods may be evicted per time: exact token buckets
budgets             disruption budgets, charged by commands that were sent
workloads           how many replicas the owners of pods want
objects             objects of the cluster; namespaces and priority classes
"""
