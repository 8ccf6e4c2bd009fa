"""The processes that stand between a cluster and Kafka, one duty each.

    process     one process: its terms, its Kafka, its metrics, its end
    kinds       the four duties: what each reads, writes and runs
    produce     what a watch or the usage sources say goes to its topics
    carry_out   decisions and eviction commands are carried out, and their outcomes reported
    job_status  the status of migrations goes to the PodMigrationJobs that asked for them, drains to nodes
    telemetry   what a process counts of itself, and whether it works

Of each cluster and duty one process at a time is active (`connectors.kafka.leadership`); others
stand by and take over.
"""
