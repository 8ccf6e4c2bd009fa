"""Answers for people, read from topics.

wording             messages as sentences; rebalancing_wording: rounds, migrations and moves
presence            whether a worker writes, and whether a record names a cluster, node or pod
migration_answers   the records that answer a request
migration_states    the newest state of a cluster's migrations and drains
cluster_reading     the newest records of a cluster, within limits
status_sections     sections of `loadstream status`; status_processes: brokers, workers, duties
node_usage          nodes by usage
whynot              why no pod of a cluster or node, or why a pod, was not evicted
"""
