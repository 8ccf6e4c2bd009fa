"""The topics, and how messages become records of them.

catalog         all topics: keys, classes, retention
codec           bytes to messages and back
partitions      keys and partitions, by Kafka's partitioner
records         key, partition and time of a message
unknown_fields  fields that a reader passes over
"""
