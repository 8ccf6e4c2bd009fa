"""The decision logic. Each package imports only packages listed below it, and `schemas`.

app        the worker: Faust's app, its agents and endpoints, put together
in_process both stages joined without Kafka, for simulations
replay     folds recorded inputs once more and compares
cluster    one cluster's state, its tables, its stage
aggregate  usage samples to node metrics, as a stage
worker     what runs a stage: everything that knows Faust, Kafka and time
migration  eviction and replacement of pods
rebalance  which nodes are hot, and which pods should leave
placement  where a pod goes
inventory  what exists: nodes, their pods, full lists
moves      outcomes of earlier moves
usage      expected usage of nodes, as Koordinator computes it
risk       statistics of usage, and the cost of a node that may be overutilized
pods       a pod as the core sees it: demand, kind, owner, priority
stage      the contract of a stage: records, journal, rows, checkpoints
"""
