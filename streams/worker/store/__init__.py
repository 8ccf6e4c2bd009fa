"""How results become durable: to the journal, the output topics and the changelogs of tables.

pipeline       applied batches, made durable one after the other in two steps
journal_first  durability of the cluster stage: journal, outputs, rows lazily
lazy_rows      writes the rows of a journal-first stage lazily and together
writethrough   durability of the aggregate stage: outputs, then every row
publisher      writes to Kafka by an idempotent producer
fence          a publisher whose rows the brokers take from one worker at a time
checkpointer   writes checkpoints beside the batches
topic_watch    whether topics are those that the state was built from
"""
