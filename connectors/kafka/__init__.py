"""Speaking Kafka: connections, one reader and one sender for all, topics.

    client            a connection, or a clear reason why there is none
    diagnosis         that reason, found step by step; tls_failures: why a handshake fails
    admin             topics on a broker: find, make, mend; extents: what their partitions hold
    topics            which topics must exist, and how they differ from those that do
    reader            records of partitions from given offsets on
    tail              a whole topic, bounded or followed; selection: which of its records
    recent            the records of a partition since a moment, for processes that must not block
    backwards         the newest records of a cluster, newest first
    table_rows        rows of a cluster, from the changelog of a table
    arrivals          what comes to one partition from now on
    applied           whether a worker has applied a record
    records           key, partition and time of a message
    sender            records out, acknowledged
    outbox            the same without blocking, for processes that stand between Kafka and others
    producer          the one producer: compressed, idempotent
    reconnect         clients wait for brokers that are away
    membership        a process's place in a group of which one at a time is active for a cluster;
                      turn: the time in which it is
    produce           JSON lines or messages into a topic
    wire              both ways at once, for simulated clusters
    partition_reset   rows, journal and checkpoints of a partition deleted

The worker of the streams has its own reader and producers (`streams.worker.reader`, `publisher`,
`fence`): they are asynchronous beside Faust, wait for brokers that a command gives up, and fence off
a former owner of a partition.
"""
