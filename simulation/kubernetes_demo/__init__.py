"""`loadstream kubernetes demo`: a real control plane on this machine, with loadstream around it.

load         the cluster: nodes, deployments with budgets, what their pods use
runner       all of it together, started and ended
story        what happens, step by step, and what loadstream says meanwhile
client         the connection to its broker
view         the nodes, live
summary      the result, judged by the API server's own log
observation  `--observe`: a snapshot at a cluster of the user's own, which changes nothing
"""
