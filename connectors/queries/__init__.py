"""Answers for people, read from topics.

wording             messages as sentences; rebalancing_wording: those of rounds and migrations;
                    volume_wording: those of persistent volumes and claims
presence            whether a worker writes, and whether anything names a cluster or node
migration_answers   which records answer a request, and how it ended
migration_states    the newest state of a cluster's migrations and drains
pod_search          which pod a name means
whynot              why a cluster, a node or a pod saw no eviction
"""
