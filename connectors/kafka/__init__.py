"""Speaking Kafka: connections, one reader and one sender for all, topics, and the commands around.

    client            a connection, or a clear reason why there is none
    diagnosis         that reason, found step by step; tls_failures: why a handshake fails
    failures          the connection of a command, and its expected failures as sentences
    admin             topics on a broker: find, make, mend; extents: what their partitions hold
    topics            which topics must exist, and how they differ from those that do
    reader            records of partitions from given offsets on
    tail              a whole topic, bounded or followed; selection: which of its records
    recent            the records of a partition since a moment, for processes that must not block
    backwards         the newest records of a cluster, newest first
    table_rows        rows of a cluster, from the changelog of a table
    arrivals          what comes to one partition from now on
    applied           whether a worker has applied a record
    presence          whether a worker writes, and whether anything names a cluster or node
    attention         warnings of it, before a command does anything else
    records           key, partition and time of a message
    sender            records out, acknowledged
    outbox            the same without blocking, for processes that stand between Kafka and others
    patience          clients that do not block go on after brokers were away
    membership        a process's place in a group of which one at a time is active for a cluster;
                      turn: the time in which it is
    produce           JSON lines or messages into a topic
    consumer_reading  a record read as its consumer would read it
    wire              both ways at once, for simulated clusters
    commands          `topics`, `produce`; tail_command: `tail`; partition_commands: `partition reset`
    partition_reset   rows, journal and checkpoints of a partition deleted
    topic_argument    names of topics as arguments; progress: a file with a progress bar
    wording           messages as sentences; rebalancing: those of rounds and migrations;
                      volumes: those of persistent volumes and claims

The worker of the streams has its own reader and producers (`streams.worker.reader`, `publisher`,
`fence`): they are asynchronous beside Faust, wait for brokers that a command gives up, and fence off
a former owner of a partition.
"""
