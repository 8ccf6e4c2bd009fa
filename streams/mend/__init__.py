"""`loadstream mend`: lets a worker start again from a damaged partition.

command  what a person runs
mender   reads and writes Kafka; `replay.mending` and `aggregate.mending` say what is kept
"""
