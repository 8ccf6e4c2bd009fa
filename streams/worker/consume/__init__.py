"""How records come in: from Faust's consumer to the state of a partition.

transport    Faust's app and its Kafka transport: the records of a fetch as one parcel
batches      collects parcels to batches, in the order of the log
intake       applies records in the order of their offsets; reads those that are missing
undelivered  reads records that were never delivered and that no record follows
ticker       writes the time into topic `clock`
takeover     takes over the partitions that Faust assigns, and builds their stages
"""
