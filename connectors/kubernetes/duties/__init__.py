"""The processes between a cluster and Kafka, one duty each.

    process     runs one or several duties: leadership, Kafka, metrics, end of the process
    kinds       the four duties: their inputs, outputs and work
    produce     sends messages of a watch or of usage sources
    carry_out   executes decisions and eviction commands, and reports their outcomes
    job_status  writes migration statuses to PodMigrationJobs, and drains to nodes
    telemetry   metrics and health of a process

Per cluster and duty one process is active (`connectors.kafka.leadership`); other processes stand by.
"""
