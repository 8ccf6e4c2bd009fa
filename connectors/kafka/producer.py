"""The one producer of ours: every record is compressed, acknowledged by all replicas, and written once.

Retries double nothing (idempotence). zstd makes a journal record or a sample several times smaller;
Kafka and all our consumers read it.
"""

from typing import Any

from connectors.kafka.reconnect import connected, never_expire, start_client
from schemas.base.limits import BATCH_BYTES_MAX
from schemas.settings.connection import KafkaSettings

#: Compression of all our records.
COMPRESSION = "zstd"


async def connect_producer(settings: KafkaSettings, **options: Any) -> Any:
    """Return a producer of aiokafka that has started and keeps records until they are acknowledged.

    Waits while no broker answers. `options` replace ours.
    """
    producer = await connected(lambda: _make(settings, options))
    never_expire(producer)
    return producer


async def start_producer(settings: KafkaSettings, **options: Any) -> Any:
    """Return a producer that has started and gives records up after `request_timeout_ms`.

    Raises KafkaError if no broker answers.
    """
    return await start_client(lambda: _make(settings, options))


def _make(settings: KafkaSettings, options: dict[str, Any]) -> Any:
    from aiokafka import AIOKafkaProducer

    return AIOKafkaProducer(
        **{
            **settings.aiokafka_options(),
            "enable_idempotence": True,
            "compression_type": COMPRESSION,
            "max_request_size": BATCH_BYTES_MAX,
            **options,
        }
    )
