"""Simulated clusters, decided by the real stages: for the demo, the closed loop and tests.

cluster          one simulated cluster behind the ports of a real one
closed_loop      compares policies and rules on whole simulated days
named_scenarios  kinds of load, by name
worker_stages    the stages of a worker process, for runs of the closed loop
demo             a run of the closed loop through a worker, shown live
processes        workers and other commands of loadstream as child processes
control_plane    a real Kubernetes control plane on this machine
kubernetes_demo  loadstream on that control plane
"""
