"""What holds a migration back: limits, budgets and protections.

checks              all of them, in their order
protections         which pods may never be evicted
round_limits        how many pods one round may let leave
concurrency_limits  how many pods may move at once
rate_limits         how many pods may be evicted in a time: exact token buckets
budgets             disruption budgets, less what commands took; which of them cover a pod
workloads           how many replicas owners want
named               namespaces and priority classes
"""
