"""The seams to a cluster: what loadstream knows of it, and what it does to it.

    usage_source   what nodes and pods use        ──▶ node-usage, node-metrics
    state_watch    what there is, and what waits  ──▶ node-state, pod-lifecycle, scheduling-requests
    sink           binds and evicts               ◀── placement-decisions, eviction-commands

    command_rules  what holds for every sink: once per id, expiry, dry run, one outcome
    at_once        runs a port that never waits without an event loop

Each seam is one base class that says what an implementation owes. A new implementation is one
module, and one test module that gives it to the seam's
contract suite (`tests/connectors/ports`). The ports are asynchronous, since an API server is asked
many things at once; the simulated cluster answers at once. Nothing here speaks to Kafka.
"""
