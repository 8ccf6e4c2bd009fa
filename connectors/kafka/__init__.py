"""Kafka clients: connections, one reader and one producer for all purposes, topics.

client            a connection, or a clear reason why there is none; the event loop of commands
diagnosis         that reason, found step by step
admin             topics on a broker: find, make, mend; extents: what their partitions hold
groups            consumer groups: members, committed offsets
topics            which topics must exist, and how they differ from those that do
reader            records of partitions from given offsets on, for async code and for commands
producer          the producer: compressed, idempotent; messages out, acknowledged, for commands
reconnect         waits for brokers that are away
tail              a whole topic, bounded or followed, or the records of it that are about something
recent            the records of a partition since a moment, for processes that must not block
backwards         the newest records of a cluster, newest first; what comes after them
applied           whether a worker has applied a record
produce           JSON lines or messages into a topic
table_rows        rows of a cluster from a changelog
outbox            sends messages without blocking, for duties
leadership        elects the active process of a cluster by a consumer group
term              what the active process may write
partition_reset   deletes rows, journal and checkpoints of a partition
"""
