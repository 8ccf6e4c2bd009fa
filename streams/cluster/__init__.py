"""The cluster stage: one writer per cluster, which decides where pods go and which pods leave.

    records ──▶ stage ──▶ clusters ──▶ state ──▶ inventory, placement, rebalance, migration, moves
                                         │
                              tables ◀───┘ rows, and back

stage        one partition: a pure fold over records
clusters     the clusters of a partition; contains the failure of one
batch_records  the records of a batch with their results, and messages encoded for publishing
failures     clusters that failed, and those that are set apart
state        one cluster: applies records, decides
placement    requests, outcomes and ticks in, decisions out
unlisted     removes what full lists lack
rebalancer   when a round is due, and what it is made from
rounds       the record of a round
round_rules  what a round asks about pods
collecting   hands collect policies to the aggregate stage
tables       state to table rows and back
inventory_rows  rows of nodes and of the pods that take room on them
usage_rows   rows of usage of pods over their lifetimes, and of the fleet
request_rows  rows of requests that wait
statistics   figures and counts for metrics
"""
