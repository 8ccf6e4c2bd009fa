"""The contract of a stage, which is a pure fold of one partition: bytes in, bytes out.

records          input and output records, dead letters, and the protocol `Stage`
statistics       counts and figures of a stage for metrics
journal          encodes a batch as journal records, and decodes the records of a journal
packing          packs rows of pods, single in the journal, into table rows per node
tracked_rows     rows of one kind, and which of them must be written
long_rows        splits rows that exceed the size of a record, and joins them again
checkpoint       encodes rows as pieces of a checkpoint; finds and decodes checkpoints
budget           limits the work of one record, tick or round
arrays           types of arrays
cause            the record that causes a decision, and ids derived from it
sized_cache      a cache with a limit in bytes
version          the installed version of loadstream
"""
