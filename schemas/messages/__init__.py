"""All messages, one module per topic or group of objects.

usage          `node-usage`: samples, and the collect policies between them
metrics        `node-metrics`
nodes          `node-state`
pods           `pod-lifecycle`, the pod itself, label selectors of pods
objects        namespaces, priority classes, workloads and disruption budgets, on `pod-lifecycle`
lists          full lists, on `node-state` and `pod-lifecycle`
decisions      `scheduling-requests` and `placement-decisions`
commands       `eviction-commands` and `command-outcomes`
migrations     `migration-requests`, migrations on `status`, and their rows
rounds         rounds on `status`, and rows of earlier rounds
moves          outcomes of moves on `status`, and rows of earlier moves
policies       `policies`
clock          `clock`
journal        `journal` and `checkpoints`
dead_letters   `dead-letters`
"""
