"""Pods, and the properties of pods that decisions depend on.

kind      groups of pods that every filter and score treats alike; demand and priority class of a kind
held_pod  a pod with its room on a node
"""
