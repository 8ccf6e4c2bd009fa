"""Pods as decisions see them.

kind  groups of pods that every filter and score treats alike; demand and priority class of a kind
held  a pod with its room on a node
"""
