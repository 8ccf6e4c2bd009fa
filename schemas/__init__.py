"""Messages of the topics, rows of the tables, policies and settings.

    node-usage ──▶ aggregate ──▶ node-metrics ─┐
    node-state, pod-lifecycle ─────────────────┤
    scheduling-requests, policies, clock ──────┼─▶ cluster ──▶ journal, placement-decisions,
    command-outcomes ──────────────────────────┘               eviction-commands, dead-letters

This package imports no other package of the project. Only `settings` reads files, and only
`publish` writes them (to `schemas/published`).

    base      base classes, codec, quantities, limits, refusals
    messages  one module per topic
    topics    the catalog of topics; keys, partitions, encoding
    policy    reading, checking and printing a policy
    storage   rows of the tables
    settings  settings that all processes share
    examples  an example of every message
    publish   JSON Schemas and the AsyncAPI document
"""
