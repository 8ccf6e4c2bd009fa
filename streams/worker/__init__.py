"""Runs a stage: everything that knows Faust, Kafka and time.

    stream ─▶ batches ─▶ intake: stage.apply ─▶ pipeline: journal, outputs, rows ─▶ acknowledged
                            ▲
    recovered tables ───────┘ (takeover builds the stage of a partition from its rows)

The stages themselves are pure. Only this package and `streams.app` import Faust, aiokafka or asyncio.

    runner           connects the parts of a stage's worker
    consume/         reads records and applies them
    store/           makes results durable
    report/          metrics and health of the worker
    tables           tables of raw rows, recovered by Faust
    partitions       partitions of a stage that the worker owns, and current problems
    packed_messages  several records as one message of Faust
    membership       checks whether the worker is in its consumer group
    event_loop       background work in short turns, rare garbage collection
    shutdown         Faust's worker, which ends within a limited time
    settings         settings of a worker
"""
