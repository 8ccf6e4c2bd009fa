"""Filters: which nodes a pod must not go to. One module each; `placement.registry` finds them.

load_aware     LoadAwareScheduling: nodes whose usage exceeds or will exceed a threshold
fit            NodeResourcesFit: nodes without room for the pod's requests
node_affinity  NodeAffinity: node selector and required affinity
labels         requirements on node labels
node_name      NodeName: the node that a pod requires
ports          NodePorts: host ports that are in use
taints         TaintToleration, PreferNoSchedule: taints that the pod does not tolerate
unschedulable  NodeUnschedulable: cordoned nodes
unsupported    pods that no node may run, and limits of one pod
"""
