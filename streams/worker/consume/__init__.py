"""Reads records with Faust's consumer, and applies them to the state of a partition.

transport    Faust's app and its Kafka transport
batches      collects records into batches
intake       applies records in the order of their offsets, and reads missing records
undelivered  reads records that Faust has not delivered
ticker       writes the time to topic `clock`
takeover     builds the stages of assigned partitions
"""
