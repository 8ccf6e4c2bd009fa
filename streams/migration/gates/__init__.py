"""What stops or delays a migration: limits, budgets and protections.

checks              all gates, in their order
protections         which pods may never be evicted
round_limits        how many pods one round may evict
concurrency_limits  how many pods may move at once
rate_limits         how many pods may be evicted per time: exact token buckets
budgets             disruption budgets, including the effect of commands that were sent
workloads           how many replicas the owners of pods want
named_objects       namespaces and priority classes
"""
