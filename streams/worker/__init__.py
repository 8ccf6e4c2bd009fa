"""Runs a stage: everything that knows Faust, Kafka and time.

    stream ─▶ batches ─▶ intake: stage.apply ─▶ pipeline: journal, outputs, rows ─▶ acknowledgement
                            ▲
    recovered tables ───────┘ (takeover builds the stage of a partition from its rows)

The stages themselves are pure. Only this package and `streams.app` import Faust, aiokafka or asyncio.

    runner           connects the parts of a stage's worker
    consume/         reads records and applies them
    store/           makes results durable
    report/          metrics and health of the worker
    tables           tables of raw rows, recovered by Faust
    partitions       partitions of a stage that the worker owns, and current problems
    packed_messages  packs several records into one message of Faust
    membership       checks whether the worker is in its consumer group
    event_loop       limits background work and garbage collection
    shutdown         Faust's worker with a limited time to stop
    settings         settings of a worker
"""
