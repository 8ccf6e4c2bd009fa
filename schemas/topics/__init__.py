"""The topics, and how messages become their records.

catalog         all topics: keys, classes, retention
codec           encodes and decodes messages
partitions      keys and partitions, as Kafka's partitioner assigns them
records         key, partition and timestamp of a message
unknown_fields  finds fields that readers ignore
"""
