"""The one producer of ours: every record is compressed, acknowledged by all replicas, and written once.

Retries double nothing (idempotence). zstd makes a journal record or a sample several times smaller;
Kafka and all our consumers read it.
"""

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple, Self

from connectors.kafka.client import BrokerUnavailable, Connection, event_loop, wait_for
from connectors.kafka.reconnect import connected, never_expire, start_client
from schemas.base.limits import BATCH_BYTES_MAX
from schemas.settings.connection import KafkaSettings
from schemas.topics.catalog import TOPIC_BY_NAME
from schemas.topics.codec import encode
from schemas.topics.records import Place, place

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


#: How long a record may wait for its acknowledgement before the broker counts as gone.
DELIVERY_TIMEOUT_MS = 30_000
#: Most bytes of values that wait for the producer; more of them are waited for.
_WAITING_BYTES_MAX = 64 * 1024 * 1024
_WAIT_S = 0.01


class _Waiting(NamedTuple):
    number: int
    topic: str
    value: bytes | None
    target: Place


class Sender:
    """Sends records to any topic; `flush` says whether they have arrived. A context manager."""

    def __init__(
        self, connection: Connection, *, linger_ms: int = 20, keep_places: bool = False
    ) -> None:
        """Connect; raises BrokerUnavailable.

        Args:
            connection: an open one.
            linger_ms: how long a record may wait for others to be sent with.
            keep_places: remember where each record is written; for few of them.
        """
        from aiokafka.errors import KafkaError

        self._connection = connection
        self._keep_places = keep_places
        self._sent = 0
        self._refused: list[tuple[int, str]] = []
        """Number and cause of each record that was not taken."""
        self.places: list[tuple[int, int]] = []
        """Partition and offset of the acknowledged records, if they are kept."""
        self._waiting: deque[_Waiting] = deque()
        self._given_bytes = self._taken_bytes = 0
        """Bytes of values that callers have given, and that the producer has taken."""
        self._under_way: dict[asyncio.Future[Any], int] = {}
        """Number of each record that is not acknowledged yet."""
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
        """Whether a record was not taken, as far as is known now."""
        return bool(self._refused)

    def send(self, topic: str, message: Any) -> None:
        """Send a message to where it belongs."""
        self.send_value(topic, encode(message), place(TOPIC_BY_NAME[topic], message))

    def send_value(self, topic: str, value: bytes | None, target: Place, number: int = 0) -> None:
        """Hand a record over, which is on its way a moment later; waits while too many do.

        `number` names the record if it fails; 0: its number among those sent.
        """
        self._sent += 1
        while self._given_bytes - self._taken_bytes > _WAITING_BYTES_MAX:
            time.sleep(_WAIT_S)
        self._given_bytes += len(value or b"")
        self._waiting.append(_Waiting(number or self._sent, topic, value, target))
        if len(self._waiting) == 1:
            self._loop.call_soon_threadsafe(self._begin)

    def flush(self, unit: str = "record") -> None:
        """Wait until all is acknowledged.

        Args:
            unit: what the numbers of records count, for the error.

        Raises:
            BrokerUnavailable: something is not; it says from which number on.
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
        """Disconnect; gives up what is not acknowledged yet."""
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
            return  # it was given up before
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
        """Refuse what is not acknowledged."""
        if self._handing_over is not None:
            self._handing_over.cancel()
        under_way = dict(self._under_way)
        numbers = [*under_way.values(), *(each.number for each in self._waiting)]
        self._refused += [(number, "no acknowledgement") for number in numbers]
        self._under_way.clear()
        self._waiting.clear()
        for acknowledged in under_way:
            acknowledged.cancel()

    async def _close(self) -> None:
        if self._under_way or self._waiting or self._refused:
            self._give_up()
            # To stop a producer is to wait for what it has.
            self._producer._closed = True  # noqa: SLF001 - no other way
            with suppress(asyncio.CancelledError):
                await self._producer._sender.close()  # noqa: SLF001 - no other way
            await self._producer.client.close()
        else:
            await self._producer.stop()
