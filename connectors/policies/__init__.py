"""Policies of clusters.

entries   a cluster's policies, read as its worker reads them
unmet     what a policy needs of a cluster and does not find
draft     `policy init`: a first policy from a cluster's own history
imports   `policy import`: a policy from the configuration of another system
history   one of them as a line and as JSON
differences  fields in which two policies differ
"""
