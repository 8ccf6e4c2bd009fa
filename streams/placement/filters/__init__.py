"""Filters refuse nodes that a pod must not be placed on. One module each; `placement.registry` finds them.

load_aware     LoadAwareScheduling: nodes whose usage exceeds a threshold, or would with the pod
fit            NodeResourcesFit: nodes without room for the pod's requests
node_affinity  NodeAffinity: node selector and required affinity
labels         requirements on node labels
node_name      NodeName: the node that a pod requires
ports          NodePorts: host ports that are in use
taints         TaintToleration, PreferNoSchedule: taints that the pod does not tolerate
unschedulable  NodeUnschedulable: cordoned nodes
unsupported    pods that must not be placed on any node, and limits of one pod
"""
