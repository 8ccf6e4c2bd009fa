"""`loadstream cluster why-not`: why a cluster, a node or a pod saw no eviction, from what rounds have
written.

    reading   the newest records of a cluster
    evidence  what they say, ready to be asked
    cluster   the answer for a cluster; node: for a node; pod: for a pod
    wording   what the answers have in common
"""
