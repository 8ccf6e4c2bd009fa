"""What runs a stage: everything that knows Faust, Kafka and time, and no stage.

    stream ─▶ batches ─▶ intake: stage.apply ─▶ pipeline: journal, outputs, rows ─▶ acknowledged
                            ▲
    recovered tables ───────┘ (takeover builds a partition's stage from its rows)

The stages themselves are pure. This package and `streams.app` are the only ones of the streams that
may import Faust, aiokafka or asyncio.

    runner      puts the parts of a stage's worker together
    parcels     what a fetch has brought, as messages to Faust
    partitions  the partitions of a stage that this worker owns, and what is wrong around them
    consume/    how records come in
    store/      how results become durable
    report/     what a worker tells about itself: metrics and health
    tables      tables of raw rows, recovered by Faust
    event_loop  background work in short turns, rare garbage collection
    shutdown    Faust's worker, with an end that comes in any case

Kafka:

    broker      Kafka settings as Faust wants them
    reader      reads a stretch of one partition
    membership  whether the worker is in its consumer group, and what keeps it out
    settings    settings of a worker
"""
