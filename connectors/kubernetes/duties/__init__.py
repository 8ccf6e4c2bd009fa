"""The processes that stand between a cluster and Kafka, one duty each.

    produce    what a watch or the usage sources say goes to its topics
    carry_out  decisions and eviction commands are carried out, and their outcomes reported
    process    one process: its turns, its Kafka, its metrics, its end

Of each cluster and duty one process at a time is active (`connectors.kafka.membership`); others
stand by and take over.
"""
