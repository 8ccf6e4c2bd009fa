"""Policies of clusters.

entries      the policy records of a cluster, and their forms as text and JSON
differences  fields in which two policies differ
unmet        requirements of a policy that a cluster does not meet
imports      `policy import`: a policy from the configuration of another system
"""
