"""Kafka clients: connections, one reader and one producer for all purposes, topics.

client            a connection, or a clear reason for its failure; the event loop of commands
diagnosis         finds the reason why no broker can be used
topics            expected topics, and their differences from existing ones
admin             finds, creates and repairs topics
extents           first and next offsets of partitions
reader            reads partitions from given offsets
producer          the compressed, idempotent producer; `Sender` for commands
reconnect         keeps clients of aiokafka alive while brokers are down
tail              records of a whole topic, bounded or followed, with filters
recent            records of a partition since a time, without blocking
backwards         the newest records of a cluster, newest first
applied           whether a worker has applied a record
produce           JSON lines or messages into a topic
table_rows        rows of a cluster from a changelog
outbox            sends messages without blocking, for duties
leadership        elects the active process of a cluster by a consumer group
term              what the active process may write
partition_reset   deletes rows, journal and checkpoints of a partition
"""
