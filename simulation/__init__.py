"""Simulated clusters, decided by the real stages: what the demo, the closed loop and tests run on.

cluster          one simulated cluster behind the ports of a real one
closed_loop      whole days decided by several policies and rules, side by side
demo             a worker and a simulated cluster on this machine, shown live
control_plane    a real Kubernetes control plane on this machine
kubernetes_demo  loadstream around that control plane
"""
