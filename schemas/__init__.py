"""What is said: every message of the topics and every row of the tables.

    node-usage ──▶ aggregate ──▶ node-metrics ─┐
    node-state, pod-lifecycle ─────────────────┤
    scheduling-requests, policies, clock ──────┼─▶ cluster ──▶ journal, placement-decisions,
    command-outcomes ──────────────────────────┘               eviction-commands, dead-letters

Nothing here does I/O, but for `export`, which writes what others need to `schemas/published`, and
what settings need: `connection`, `environment` and `announcement`.

Messages, by topic:

    usage           `node-usage`
    collect         the collect policy of a cluster, between the samples of `node-usage`
    metrics         `node-metrics`
    pressure        how much of the time tasks of a node waited, in both
    nodes           `node-state`
    pods            `pod-lifecycle`, and the pod itself
    namespaces      namespaces and priority classes, on `pod-lifecycle`
    volumes         persistent volumes and their claims, on `pod-lifecycle`
    workloads       workloads and disruption budgets, on `pod-lifecycle`
    lists           full lists, on `node-state` and `pod-lifecycle`
    requests        `scheduling-requests`
    decisions       `placement-decisions`
    outcomes        `command-outcomes`
    evictions       `eviction-commands`
    migrations      `migration-requests`, records of `status`, and their rows
    rounds          rounds on `status`, and rows of what earlier rounds saw
    moves           outcomes of moves on `status`, and rows of what is remembered of moves
    policies        `policies`
    policy          a policy's text: reading, checking, printing
    clock           `clock`
    journal         `journal`
    checkpoints     `checkpoints`
    deadletters     `dead-letters`

    rows            rows of the tables
    percentiles     rows of table `node_percentiles`
    usage_moments   rows of what pods used over their lives, and a whole cluster
    tables          all tables: kinds of rows and their keys
    topics          all topics: keys, classes, retention

    base            what every message has in common
    codec           bytes to messages and back
    refusals        why a record is not applied
    complaints      what is wrong with a record, in a sentence
    unknown_fields  fields that a reader passes over
    partitions      keys and partitions, by Kafka's partitioner
    limits          how long a record may be
    quantities      Kubernetes quantities to exact integers
    capacity        what a node has to give, with overcommitment or without
    printable       text of others as text and nothing else
    connection      how to reach Kafka: settings of every client
    environment     what is wrong with variables that settings are read from
    announcement    where a local broker writes its address

    contract        JSON Schema of a message
    docstrings      what the string below a field says of it
    asyncapi        the AsyncAPI document
    examples        an example of every message
    export          writes the published documents
"""
