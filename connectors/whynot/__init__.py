"""`loadstream why-not`: why a cluster, a node or a pod saw no eviction, from what rounds have written.

reading ── the newest records of a cluster      evidence ── what they say, ready to be asked
cluster, node, pod ── the answers, in sentences      commands ── the command
"""
