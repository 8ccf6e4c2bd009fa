"""Interfaces to a cluster: what loadstream reads from it, and what it changes in it.

    usage_source   usage of nodes and pods         ──▶ node-usage, node-metrics
    state_watch    objects and pending pods        ──▶ node-state, pod-lifecycle, scheduling-requests
    sink           binds and evicts pods           ◀── placement-decisions, eviction-commands
    command_rules  rules of every sink: each command once, expiry, dry run, one outcome
    at_once        runs a port without an event loop

Each interface is a base class. An implementation is one module, and one test module that inherits the
contract tests in `tests/connectors/ports`. The methods are asynchronous, because an API server handles
many requests at once; the simulated cluster never waits. Nothing here uses Kafka.
"""
