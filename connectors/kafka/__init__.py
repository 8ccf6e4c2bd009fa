"""Speaking Kafka: connections, one reader and one sender for all, topics.

client            a connection, or a clear reason why there is none
diagnosis         that reason, found step by step; tls_failures: why a handshake fails
admin             topics on a broker: find, make, mend; extents: what their partitions hold
topics            which topics must exist, and how they differ from those that do
reader            records of partitions from given offsets on, for async code and for commands
producer          the producer: compressed, idempotent
reconnect         waits for brokers that are away
blocking          the event loop in which commands run both
tail              a whole topic, bounded or followed; selection: which of its records
recent            the records of a partition since a moment, for processes that must not block
backwards         the newest records of a cluster, newest first
table_rows        rows of a cluster, from the changelog of a table
arrivals          what comes to one partition from now on
applied           whether a worker has applied a record
records           key, partition and time of a message
sender            messages out, acknowledged, for commands
outbox            messages out for the duties, without blocking
leadership        a process's place in a group of which one at a time is active for a cluster;
                  term: the time in which it is
produce           JSON lines or messages into a topic
partition_reset   rows, journal and checkpoints of a partition deleted
"""
