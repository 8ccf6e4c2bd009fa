"""Pods as decisions see them.

demand  what a pod asks for: requests and limits, priority class, limits of one pod
kind    groups of pods that every filter and score treats alike
held    a pod with its room on a node
"""
