"""Kafka clients: connections, one reader and one producer for all purposes, topics.

client             connections of commands, and the event loop of commands
diagnosis          finds the reason why no broker can be used
reconnect          lets clients of aiokafka wait for brokers
topics             expected topics, and their differences from existing topics
admin              finds, creates and repairs topics; members and offsets of consumer groups
extents            first and next offsets of partitions
reader             reads partitions from given offsets on, for async code and for commands
partition_records  reads a range of one partition, or its newest record, for async code
cluster_records    reads the newest records and the rows of a cluster, for commands
tail               reads or follows a whole topic, for commands
applied            tells whether a worker has applied a record
producer           the producer, for async code and for commands
produce            sends JSON lines or messages to a topic, for commands
leadership         elects the active process of a cluster by a consumer group
term               when the active process may write
"""
