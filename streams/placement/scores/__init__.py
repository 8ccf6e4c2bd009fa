"""Scores rate how good a node is for a pod. One module each; `placement.registry` finds them.

load_aware           LoadAwareScheduling: prefers nodes with low expected usage
limits_aware         NodeResourceLimitsAware: prefers nodes whose pods have low limits
least_allocated      NodeResourcesFit: prefers nodes with few requests
balanced_allocation  NodeResourcesBalancedAllocation: balances requests between resources
overutilization_risk OverutilizationRisk: prefers nodes where the risk of overutilization grows least
"""
