"""What is done to a real cluster, and what its users read about it.

    placement-decisions ──▶ binding, explanation      eviction-commands ──▶ eviction
    PodMigrationJob objects ──▶ migration-requests     status ──▶ their status, cordons

    sink            the port: bind, evict, explain
    binding         one write that binds a pod, and finding out what a lost answer was
    eviction        a look, then the eviction API, a deletion or annotations
    explanation     why a pod has no node: its condition and its nominated node
    events          Events, counted up
    background      writes that may wait: paced, replaced, dropped beyond a limit
    throttle        requests that the API server bears
    answers         what its answers to bindings and evictions mean
    pods            pods as they are now
    nodes           whether a node exists
    cordons         cordons of nodes that are drained
    migration_jobs  Koordinator's PodMigrationJobs, followed: requests, and their status
    migration_job   one of them, read and worded

Nothing here speaks to Kafka. Once per id, expiry and repetition are the rules of the port
(`connectors.ports.command_rules`). Not guaranteed: that explanations and Events are written.
"""
