"""Pods as decisions see them.

demand         requests, limits and host ports, summed as Kubernetes sums them
priority       Koordinator's priority classes, and the resources that each class requests
kind           groups of pods that every filter and score treats alike
limits         limits of one pod
owners         pods by controller
anti_affinity  required anti-affinity of held pods
held           a pod with its room on a node
"""
