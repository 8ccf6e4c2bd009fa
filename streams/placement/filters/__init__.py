"""Filters: which nodes a pod must not go to. One module each; `placement.registry` finds them.

load_aware     LoadAwareScheduling: nodes that are, or will be, too busy
fit            NodeResourcesFit: what a pod requests is free on its node
node_affinity  NodeAffinity: node selector and required affinity
labels         requirements on labels, read once and asked of many nodes
node_name      NodeName: a pod that names its node
ports          NodePorts: two pods cannot take one port of a node
taints         TaintToleration: taints that a pod does not tolerate
unschedulable  NodeUnschedulable: cordoned nodes take no new pods
unsupported    refuses pods with requirements that no filter here evaluates
"""
