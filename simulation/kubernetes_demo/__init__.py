"""`loadstream kubernetes demo`: a real control plane on this machine, with loadstream around it.

commands     the command
load         the cluster: nodes, deployments with budgets, what their pods use
processes    loadstream's own processes: a worker and one for each duty
runner       all of it together, started and ended
story        what happens, step by step
observed     what loadstream says meanwhile
view         the nodes, live
summary      the result, judged by the API server's own log
observation  `--observe`: a look at a cluster of the user's own, which changes nothing
"""
