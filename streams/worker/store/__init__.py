"""Makes results durable in the journal, the output topics and the changelogs of tables.

pipeline       makes applied batches durable in order, in two steps
journal_first  durability of the cluster stage: journal, outputs, rows later
row_writer     writes the rows of the cluster stage every few seconds
writethrough   durability of the aggregate stage: outputs, then rows
publisher      an idempotent producer
fence          a publisher that only the newest owner of a partition can use
checkpointer   writes checkpoints in the background
topic_watch    checks that the topics have not been changed or replaced
"""
