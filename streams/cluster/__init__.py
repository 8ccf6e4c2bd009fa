"""The cluster stage: one writer per cluster, which decides where pods go and which pods leave.

    records ──▶ stage ──▶ clusters ──▶ state ──▶ inventory, placement, rebalance, migration, moves
                                         │
                              tables ◀───┘ rows, and back

stage           one partition: a pure fold over records; counts and figures for metrics
clusters        the clusters of a partition, and their encoded outputs; a failure in one does not stop the others
failures        clusters that failed, and those that are set apart
state           one cluster: applies records and decides
placement       handles requests, outcomes of bindings, and ticks
list_cleanup    removes nodes and pods that full lists lack
rebalancer      when a rebalance round is due, and which pods it may move
round_message   the message about a round
tables          state to table rows and back
inventory_rows  rows of nodes and of the pods on them
usage_rows      rows of usage per pod, and of all pods of the cluster
request_rows    rows of waiting requests
"""
