"""What is said: every message of the topics and every row of the tables.

    node-usage ──▶ aggregate ──▶ node-metrics ─┐
    node-state, pod-lifecycle ─────────────────┤
    scheduling-requests, policies, clock ──────┼─▶ cluster ──▶ journal, placement-decisions,
    command-outcomes ──────────────────────────┘               eviction-commands, dead-letters

`schemas.topics` holds the table of topics in the order of the data's path; `schemas.codec` turns bytes
into messages or refusals; `schemas.partitions` says where a record belongs; `schemas.deadletters` keeps
what was refused; `schemas.quantities` reads Kubernetes quantities; `schemas.policy` reads policies. What
others need to know of all this is written to `schemas/published` by `schemas.export`.
"""
