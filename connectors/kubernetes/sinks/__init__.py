"""Binds and evicts pods of a real cluster, and explains decisions to its users.

    placement-decisions ──▶ binding, explanation      eviction-commands ──▶ eviction
    PodMigrationJob objects ──▶ migration-requests     status ──▶ status of jobs, cordons

    sink            the sink: bind, evict, explain
    binding         binds a pod to an existing node, and resolves lost answers
    eviction        evicts a pod: eviction API, deletion or annotations
    explanation     condition of a pod without a node
    events          Events, which are counted
    background      optional writes: rate-limited, replaced by newer ones, dropped beyond a limit
    answers         classifies answers to bindings and evictions
    pods            reads pods
    cordons         cordons drained nodes
    migration_jobs  follows Koordinator's PodMigrationJobs: requests, and their status
    migration_job   reads and writes one PodMigrationJob

Nothing here uses Kafka. `connectors.ports.command_rules` handles repeated and expired commands.
Explanations and Events may be lost.
"""
