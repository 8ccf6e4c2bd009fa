"""A pod as the decision core sees it. Pure.

demand         requests, limits and host ports, summed as Kubernetes sums them
priority       Koordinator's classes of pods, and what each class requests of a node
kind           kinds of pods: pods that every filter and score treats alike
limits         what one pod may ask for at most
owners         which pods belong to one controller
anti_affinity  which pods the held ones keep away from their nodes
held           a pod that takes room on a node
"""
