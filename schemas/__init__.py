"""What is said: every message of the topics and every row of the tables.

    node-usage ──▶ aggregate ──▶ node-metrics ─┐
    node-state, pod-lifecycle ─────────────────┤
    scheduling-requests, policies, clock ──────┼─▶ cluster ──▶ journal, placement-decisions,
    command-outcomes ──────────────────────────┘               eviction-commands, dead-letters

Nothing here does I/O, but for `publish`, which writes what others need to `schemas/published`, and
what `settings` need.

    base      what every message has in common
    messages  the messages, by topic
    topics    the topics, and how messages become records of them
    policy    a policy's text: reading, checking, printing
    storage   rows of the tables
    settings  settings that all processes share
    examples  an example of every message
    publish   JSON Schemas and the AsyncAPI document
"""
