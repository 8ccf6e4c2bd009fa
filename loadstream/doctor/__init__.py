"""The command `doctor`: faults of an installation, with advice.

A check is a function that yields findings. `loadstream status` shows the findings of some checks, too.

command     the command, and the order of the checks
findings    a finding: grade, text and advice
kafka       brokers, certificates, topics
processes   clock, worker, duties and measurements of a cluster
policy      whether the policy is applied and fits the nodes
pods        pods that loadstream would refuse
kubernetes  clock of the API server, and rights of processes
queries     PromQL queries of usage sources
"""
