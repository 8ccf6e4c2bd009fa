"""The topics, and how messages become their records.

catalog         all topics: keys, classes, retention; the place of a record
codec           encodes and decodes messages
partitions      keys and partitions, as Kafka's partitioner assigns them
unknown_fields  finds fields that readers ignore
"""
