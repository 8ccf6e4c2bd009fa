"""All messages, by topic.

usage        `node-usage`, and pressure: how much of the time tasks of a node waited
collect      the collect policy of a cluster, between the samples of `node-usage`
metrics      `node-metrics`
nodes        `node-state`
pod_selectors  label selectors of pods
pods         `pod-lifecycle`, and the pod itself
namespaces   namespaces and priority classes, on `pod-lifecycle`
volumes      persistent volumes and their claims, on `pod-lifecycle`
workloads    workloads and disruption budgets, on `pod-lifecycle`
lists        full lists, on `node-state` and `pod-lifecycle`
decisions    `scheduling-requests` and `placement-decisions`
outcomes     `command-outcomes`
evictions    `eviction-commands`
migrations   `migration-requests`, records of `status`, and their rows
rounds       rounds on `status`, and rows of what earlier rounds saw
moves        outcomes of moves on `status`, and rows of what is remembered of moves
policies     `policies`
clock        `clock`
journal      `journal`
checkpoints  `checkpoints`
dead_letters  `dead-letters`
"""
