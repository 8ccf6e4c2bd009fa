"""Filters and scores. A new one is one module here and one test file; `registry` finds it.

base                 what a filter or a score is
registry             finds plugins; a policy enables, orders and weighs them
columns              columns of values that many nodes share
labels               requirements on labels, read once and asked of many nodes
load_aware           LoadAwareScheduling: keeps pods off nodes that are, or will be, too busy
limits_aware         NodeResourceLimitsAware: spreads the limits of pods
fit                  NodeResourcesFit: what a pod requests is free on its node
least_allocated      the score of NodeResourcesFit: prefers nodes with few requests
balanced_allocation  NodeResourcesBalancedAllocation: evens out what is requested
node_affinity        NodeAffinity: node selector and required affinity
node_name            NodeName: a pod that names its node
ports                NodePorts: two pods cannot take one port of a node
taints               TaintToleration: taints that a pod does not tolerate
unschedulable        NodeUnschedulable: cordoned nodes take no new pods
unsupported          refuses pods with requirements that no filter here evaluates
"""
