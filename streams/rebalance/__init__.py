"""Rebalancing: from a cluster's inventory to "these pods should leave these nodes, in this order, for this reason".

    costs             six of the keys by which pods are ordered, once a pod
    figures, columns  usage and capacity of nodes and pods as arrays, packed when something changes
    pools             thresholds in force, limits in amounts, classes of nodes
    counters          for how many rounds in a row a node has been hot
    order             which hot node comes first, and which of its pods
    targets, fit      who can take a pod, and how much room is left there
    balance           a round as loadstream makes it
    koordinator*      a round as Koordinator makes it (`compat: koordinator`), with `detectors`
    balancer          what the cluster stage calls
    outcome           what a round came to

Everything is a function of the records applied: no clock but the log's, nothing random, no order of a set.
"""
