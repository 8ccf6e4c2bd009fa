"""What the agents have in common: everything around a stage that knows Faust, Kafka and time.

    stream ─▶ batches ─▶ stage.apply ─▶ publisher: outputs, then rows ─▶ tables ─▶ acknowledged
                            ▲
    recovered tables ───────┘ (a partition's stage is built from its rows)

The stages themselves are pure; `runner` drives them. This package, the `agent` modules, `streams.app`
and `streams.cli` are the only modules of the streams that may import Faust, aiokafka or asyncio.
"""
