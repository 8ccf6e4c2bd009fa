"""How many pods may move, and the objects of the cluster that limits and protections depend on.

round_limits        how many pods one round may evict
concurrency_limits  how many pods may move at once
rate_limits         how many pods may be evicted per time: exact token buckets
budgets             disruption budgets, including the effect of commands that were sent
workloads           how many replicas the owners of pods want
named_objects       namespaces and priority classes
"""
