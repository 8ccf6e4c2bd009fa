"""The two stages of loadstream, and the worker that runs them.

Each package imports only packages listed below it, and `schemas`. Only `app` and `worker` import connectors.

app         builds the worker: Faust app, agents, endpoints
in_process  runs both stages without Kafka, for simulations
replay      applies recorded inputs again, and compares the results
cluster     the stage that decides: state and tables of the clusters of a partition
aggregate   the stage that turns usage samples into node metrics
worker      runs a stage with Faust and Kafka, and reads the clock
migration   eviction and replacement of pods
rebalance   selection of hot nodes, and of pods that should leave
placement   selection of a node for a pod
inventory   nodes, their pods, full lists
moves       outcomes of earlier moves
usage       expected usage of nodes, as Koordinator computes it
risk        statistics of usage, and the cost of a node that may be overutilized
pods        demand, kind and priority class of a pod, and its room on a node
stage       the contract of a stage: records, journal, rows, checkpoints
"""
