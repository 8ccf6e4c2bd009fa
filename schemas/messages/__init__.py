"""All messages, one module per topic or group of objects.

usage          `node-usage`
collect        the collect policy of a cluster, between the samples of `node-usage`
metrics        `node-metrics`
nodes          `node-state`
pods           `pod-lifecycle`, and the pod itself
pod_selectors  label selectors of pods
namespaces     namespaces and priority classes, on `pod-lifecycle`
workloads      workloads and disruption budgets, on `pod-lifecycle`
lists          full lists, on `node-state` and `pod-lifecycle`
requests       `scheduling-requests`
decisions      `placement-decisions`
outcomes       `command-outcomes`
evictions      `eviction-commands`
migrations     `migration-requests`, migrations on `status`, and their rows
rounds         rounds on `status`, and rows of earlier rounds
moves          outcomes of moves on `status`, and rows of earlier moves
policies       `policies`
clock          `clock`
journal        `journal`
checkpoints    `checkpoints`
dead_letters   `dead-letters`
"""
