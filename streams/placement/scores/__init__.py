"""Scores: how good a node is for a pod. One module each; `placement.registry` finds them.

load_aware           LoadAwareScheduling: prefers nodes that will be least busy
limits_aware         NodeResourceLimitsAware: spreads the limits of pods
least_allocated      NodeResourcesFit: prefers nodes with few requests
balanced_allocation  NodeResourcesBalancedAllocation: evens out what is requested
overutilization_risk OverutilizationRisk: keeps the risk low that nodes are hot
"""
