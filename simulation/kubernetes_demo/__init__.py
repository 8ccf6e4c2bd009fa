"""`loadstream kubernetes demo`: loadstream on a real control plane on this machine.

cluster       nodes, deployments with budgets, usage of their pods
runner        starts and stops all processes
steps         the steps of the demo, and what loadstream reports
view          the nodes, live
summary       the result, checked against the API server's audit log
"""
