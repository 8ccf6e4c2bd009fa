"""The command `doctor`: what is wrong with an installation, and what to do about it.

A check is a function that yields findings; `command` runs them in the order of a list.

command     the command, and the order of the checks
findings    one line of the answer
kafka       brokers, certificates, topics
processes   clock, worker, and the duties of a cluster
policy      what the policy of a cluster asks for and its nodes do not have
pods        pods that loadstream would refuse
kubernetes  clock of the API server, and the rights of processes
queries     PromQL queries of usage sources
"""
