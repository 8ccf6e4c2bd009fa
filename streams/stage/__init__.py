"""The contract of a stage, which is a pure fold of one partition: bytes in, bytes out.

records          records as stages take them in and hand them out, and the protocol `Stage`
statistics       what a worker may see of a stage, as plain values
dead_letters     a refused record as a record of `dead-letters`
journal          one batch to journal records; a journal's tail to rows and outputs
journal_records  what one record of the journal holds
packing          rows that the journal has one by one and their table has packed
tracked_rows     rows of one kind, and which of them are to be written
long_rows        rows that are longer than one record may be, cut and joined
checkpoint       the rows of a partition to pieces, and pieces to rows again
budget           how much a record, tick or round may do, and on which items
arrays           types of arrays over nodes, pods and resources
cause            the record that leads to a decision, and ids that follow from it
sized_cache      a cache with a bound in bytes
version          the version of loadstream that runs
"""
