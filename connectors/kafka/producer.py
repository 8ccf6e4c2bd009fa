"""The producer: every record is compressed, acknowledged by all replicas, and written once.

Retries cause no duplicates (idempotence). zstd makes a journal record or a sample several times
smaller.
"""

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple, Self

from connectors.kafka.client import BrokerUnavailable, Connection, event_loop, wait_for
from connectors.kafka.reconnect import connect_client, never_expire, start_client
from schemas.base.limits import BATCH_BYTES_MAX
from schemas.settings.connection import KafkaSettings
from schemas.topics.catalog import TOPIC_BY_NAME
from schemas.topics.codec import encode
from schemas.topics.records import RecordPlace, place_record

#: Compression of all records.
COMPRESSION = "zstd"


async def connect_producer(settings: KafkaSettings, **options: Any) -> Any:
    """Return a started producer of aiokafka that keeps records until they are acknowledged.

    Waits until a broker answers. `options` replace the default ones.
    """
    producer = await connect_client(lambda: _create(settings, options))
    never_expire(producer)
    return producer


async def start_producer(settings: KafkaSettings, **options: Any) -> Any:
    """Return a started producer that drops records after `request_timeout_ms`.

    Raises KafkaError if no broker answers.
    """
    return await start_client(lambda: _create(settings, options))


def _create(settings: KafkaSettings, options: dict[str, Any]) -> Any:
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


#: Timeout of an acknowledgement.
DELIVERY_TIMEOUT_MS = 30_000
#: Most bytes of waiting values; then `send` waits.
_WAITING_BYTES_MAX = 64 * 1024 * 1024
_WAIT_S = 0.01


class _Waiting(NamedTuple):
    number: int
    topic: str
    value: bytes | None
    target: RecordPlace


class Sender:
    """Sends records to any topic; `flush` waits for their acknowledgements. A context manager."""

    def __init__(
        self, connection: Connection, *, linger_ms: int = 20, keep_places: bool = False
    ) -> None:
        """Connect; raises BrokerUnavailable.

        Args:
            connection: an open connection.
            linger_ms: how long a record may wait to be sent together with others.
            keep_places: remember partition and offset of each record (for small numbers of records).
        """
        from aiokafka.errors import KafkaError

        self._connection = connection
        self._keep_places = keep_places
        self._sent = 0
        self._refused: list[tuple[int, str]] = []
        """Number and cause of each failed record."""
        self.places: list[tuple[int, int]] = []
        """Partition and offset of acknowledged records, with `keep_places`."""
        self._waiting: deque[_Waiting] = deque()
        self._given_bytes = self._taken_bytes = 0
        """Bytes of values that callers have given and the producer has taken."""
        self._under_way: dict[asyncio.Future[Any], int] = {}
        """Number of each record without acknowledgement."""
        self._loop = event_loop()
        self._handing_over: asyncio.Task[None] | None = None
        try:
            self._producer = wait_for(
                start_producer(
                    connection.settings,
                    linger_ms=linger_ms,
                    max_batch_size=1024 * 1024,
                    request_timeout_ms=DELIVERY_TIMEOUT_MS,
                )
            )
        except KafkaError:
            raise connection.silent(connection.settings.connect_timeout_s) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def has_failed(self) -> bool:
        """Whether a record has failed so far."""
        return bool(self._refused)

    def send(self, topic: str, message: Any) -> None:
        """Send a message to its partition."""
        self.send_value(topic, encode(message), place_record(TOPIC_BY_NAME[topic], message))

    def send_value(
        self, topic: str, value: bytes | None, target: RecordPlace, number: int = 0
    ) -> None:
        """Hand a record over without waiting for its acknowledgement; waits while too many bytes wait.

        `number` identifies the record in errors; 0: its number among all sent records.
        """
        self._sent += 1
        while self._given_bytes - self._taken_bytes > _WAITING_BYTES_MAX:
            time.sleep(_WAIT_S)
        self._given_bytes += len(value or b"")
        self._waiting.append(_Waiting(number or self._sent, topic, value, target))
        if len(self._waiting) == 1:
            self._loop.call_soon_threadsafe(self._begin)

    def flush(self, unit: str = "record") -> None:
        """Wait until all records are acknowledged.

        Args:
            unit: what the numbers of records count, for the error.

        Raises:
            BrokerUnavailable: records are not acknowledged; it names the first.
        """
        wait_for(self._flush())
        if not self._refused:
            return
        first, why = min(self._refused)
        explained = self._connection.silent(DELIVERY_TIMEOUT_MS / 1000)
        raise BrokerUnavailable(
            f"{len(self._refused)} of {self._sent} records were not acknowledged, from {unit} {first} "
            f"on ({why}); the others were. {explained}"
        )

    def close(self) -> None:
        """Disconnect; drops records without acknowledgement."""
        wait_for(self._close())

    def _begin(self) -> asyncio.Future[None]:
        if self._handing_over is None or self._handing_over.done():
            self._handing_over = self._loop.create_task(self._hand_over())
        return self._handing_over

    async def _hand_over(self) -> None:
        from aiokafka.errors import KafkaError

        while self._waiting:
            number, topic, value, target = self._waiting[0]
            try:
                acknowledged = await self._producer.send(
                    topic,
                    value,
                    key=target.key,
                    partition=target.partition,
                    timestamp_ms=target.timestamp_ms,
                )
            except KafkaError as error:
                self._refuse(number, error)
            else:
                self._under_way[acknowledged] = number
                acknowledged.add_done_callback(self._settle)
            self._taken_bytes += len(value or b"")
            self._waiting.popleft()

    def _settle(self, acknowledged: "asyncio.Future[Any]") -> None:
        number = self._under_way.pop(acknowledged, None)
        if number is None or acknowledged.cancelled():
            return  # it was dropped before
        error = acknowledged.exception()
        if error is not None:
            self._refuse(number, error)
        elif self._keep_places:
            written = acknowledged.result()
            self.places.append((written.partition, written.offset))

    def _refuse(self, number: int, error: BaseException) -> None:
        self._refused.append((number, str(error) or type(error).__name__))

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(2 * DELIVERY_TIMEOUT_MS / 1000):
                while self._waiting or self._under_way:
                    await asyncio.wait([self._begin(), *self._under_way])
        except TimeoutError:
            self._give_up()

    def _give_up(self) -> None:
        """Refuse all records without acknowledgement."""
        if self._handing_over is not None:
            self._handing_over.cancel()
        under_way = dict(self._under_way)
        numbers = [*under_way.values(), *(record.number for record in self._waiting)]
        self._refused += [(number, "no acknowledgement") for number in numbers]
        self._under_way.clear()
        self._waiting.clear()
        for acknowledged in under_way:
            acknowledged.cancel()

    async def _close(self) -> None:
        if self._under_way or self._waiting or self._refused:
            self._give_up()
            # stop() would wait for all records.
            self._producer._closed = True  # noqa: SLF001 - no other way
            with suppress(asyncio.CancelledError):
                await self._producer._sender.close()  # noqa: SLF001 - no other way
            await self._producer.client.close()
        else:
            await self._producer.stop()
