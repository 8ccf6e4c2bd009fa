"""What runs a stage: everything that knows Faust, Kafka and time.

    stream ─▶ batches ─▶ stage.apply ─▶ publisher: outputs, then rows ─▶ tables ─▶ acknowledged
                            ▲
    recovered tables ───────┘ (a partition's stage is built from its rows)

The stages themselves are pure; `runner` drives them. This package, `streams.agents` and `streams.app`
are the only ones of the streams that may import Faust, aiokafka or asyncio.

The way of a record:

    transport           Faust's app and its Kafka transport: the records of a fetch as one parcel
    batches             parcels to batches, in the order of the log
    runner              drives the stages of the partitions that this worker owns
    takeover            partitions taken over on a rebalance, and their stages built
    assignment          the inputs that Faust has assigned, and where they go on
    sequence            records in the order of their offsets: repeated ones dropped, gaps read
    pipeline            applied batches on their way to being durable
    durability          what makes a batch durable: the contract
    journal_first       the journal first, then outputs, rows lazily
    writethrough        outputs first, then every row
    publisher           writes to Kafka by an idempotent producer
    fence               a publisher that brokers take from one worker at a time
    tables              tables of raw rows, recovered by Faust
    newest              rows as they are now, written or not
    checkpointer        checkpoints, written beside the batches
    pace                short turns of work beside the batches
    ticker              writes the time into topic `clock`

    journal_tail        what is reported of foreign records in a journal
    topic_identity      whether topics are those that a partition's state was built from
    topic_watch         whether topics are still those that the worker started with
    undelivered         records that were never delivered and that nothing follows
    reader              reads a stretch of one partition

    broker              Kafka settings as Faust wants them
    brokers             asks brokers where partitions begin and end
    membership          whether the worker is in its consumer group, and what keeps it out
    settings            settings of a worker
    shutdown            Faust's worker, with an end that comes in any case
    garbage_collection  when Python looks for cycles of objects

    health              whether a worker lives, and whether it works
    observer            looks at the stages every few seconds
    gauges              what is true of a worker now, for Prometheus
    telemetry           what a worker counts, for Prometheus
    notices             what is wrong around a stage now
    story               what a worker logs of itself at `info`
"""
