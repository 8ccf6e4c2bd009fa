"""The producer: every record is compressed, acknowledged by all replicas, and written once.

Retries cause no duplicates (idempotence). zstd makes a journal record or a sample several times
smaller. `Producer` is asynchronous, for processes between Kafka and a cluster. `Sender` blocks, for
commands. Per partition one batch of `_BATCH_BYTES` is sent while the next batch is filled. If both are
full, callers wait.

Without `expire_s`, records and callers wait without a limit while brokers are down or a partition has
no leader. If a broker refuses a record, the next call of `check` or `send` raises BrokerUnavailable.
The process then ends, and its next start repeats the work that is not marked as done.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError

from connectors.kafka.client import BrokerUnavailable, Connection, wait_for
from connectors.kafka.reconnect import connect_client, never_expire, start_client
from schemas.base.limits import BATCH_BYTES_MAX, VALUE_BYTES_MAX
from schemas.settings.connection import KafkaSettings
from schemas.topics.catalog import TOPIC_BY_NAME, RecordPlace, place_record
from schemas.topics.codec import encode

logger = logging.getLogger(__name__)

#: Compression of all records.
COMPRESSION = "zstd"
#: Timeout of one request, or of handing over one record, in seconds; a timeout is logged and retried.
REQUEST_S = 60.0
#: Timeout of an acknowledgement for commands, in seconds.
DELIVERY_S = 30.0
#: How long to wait for records at the end, in seconds: less than Kubernetes waits between SIGTERM and
#: SIGKILL.
CLOSE_S = 15.0
_BATCH_BYTES = 1024 * 1024
#: How long requests on their way may take at the end, in seconds.
_SENDER_CLOSE_S = 1.0


def create_producer(settings: KafkaSettings, **options: Any) -> Any:
    """Return a producer of aiokafka that is not started; `options` replace the default ones."""
    return AIOKafkaProducer(
        **{
            **settings.aiokafka_options(),
            "enable_idempotence": True,
            "compression_type": COMPRESSION,
            "max_request_size": BATCH_BYTES_MAX,
            **options,
        }
    )


async def connect_producer(settings: KafkaSettings, **options: Any) -> Any:
    """Return a started producer of aiokafka that keeps records until they are acknowledged.

    Waits until a broker answers.
    """
    producer = await connect_client(lambda: create_producer(settings, **options))
    never_expire(producer)
    return producer


class RecordTooLong(ValueError):
    """A message that no reader would accept, because it is too long."""


class OutgoingRecord(NamedTuple):
    topic: str
    value: bytes | None
    target: RecordPlace
    number: int = 0
    """Number of the record in errors; 0: its number among all sent records."""


class Producer:
    """Sends records to any topic without blocking the event loop; an async context manager."""

    def __init__(
        self, settings: KafkaSettings, *, linger_ms: int = 5, expire_s: float | None = None
    ) -> None:
        """Args:
        settings: how to reach Kafka.
        linger_ms: how long a record may wait to be sent together with others.
        expire_s: a record without acknowledgement fails after this time; None: never.
        """
        self.sent = 0
        """Number of records handed over so far."""
        self.failures: list[tuple[int, str]] = []
        """Number and reason of each record that was not acknowledged."""
        self._settings = settings
        self._linger_ms = linger_ms
        self._expire_s = expire_s
        self._producer: Any = None
        self._under_way: dict[asyncio.Future[Any], int] = {}
        """Number of each record without acknowledgement."""

    async def start(self) -> None:
        """Connect; raises BrokerUnavailable."""
        timeout_s = self._expire_s or REQUEST_S
        try:
            self._producer = await start_client(
                lambda: create_producer(
                    self._settings,
                    linger_ms=self._linger_ms,
                    max_batch_size=_BATCH_BYTES,
                    request_timeout_ms=round(timeout_s * 1000),
                )
            )
        except KafkaError as error:
            raise BrokerUnavailable(f"no broker answers: {error}") from error
        if self._expire_s is None:
            never_expire(self._producer)

    async def close(self) -> None:
        """Disconnect; drops records without acknowledgement."""
        for acknowledged in self._under_way:
            acknowledged.cancel()
        # Not `stop`, which waits for records that were given up.
        self._producer._closed = True  # noqa: SLF001 - no other way
        with suppress(TimeoutError):
            async with asyncio.timeout(_SENDER_CLOSE_S):  # a broker may hang
                await self._producer._sender.close()  # noqa: SLF001 - no other way
        await self._producer.client.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=CLOSE_S)
        if count := len(self._under_way):
            logger.warning("%d records were not acknowledged after %g s: dropped", count, CLOSE_S)
        await self.close()

    async def send(self, topic: str, message: Any) -> asyncio.Future[Any]:
        """Hand a message over; the returned future is done when the record is acknowledged.

        Raises RecordTooLong, and BrokerUnavailable if an earlier record failed.
        """
        self.check()
        value = encode(message)
        if len(value) > VALUE_BYTES_MAX:
            raise RecordTooLong(
                f"topic {topic}: the record has {len(value)} bytes; expected at most "
                f"{VALUE_BYTES_MAX}"
            )
        target = place_record(TOPIC_BY_NAME[topic], message)
        return await self.send_record(OutgoingRecord(topic, value, target))

    async def send_record(self, record: OutgoingRecord) -> asyncio.Future[Any]:
        """Hand a record over; the returned future is done when the record is acknowledged."""
        self.sent += 1
        number = record.number or self.sent
        try:
            acknowledged = await self._hand_over(record)
        except KafkaError as error:
            acknowledged = asyncio.get_running_loop().create_future()
            acknowledged.set_exception(error)
        self._under_way[acknowledged] = number
        acknowledged.add_done_callback(self._settle)
        return acknowledged

    async def deliver(self, topic: str, messages: Iterable[Any]) -> None:
        """Send messages and wait until they are acknowledged; raises BrokerUnavailable."""
        waiting = [await self.send(topic, message) for message in messages]
        await asyncio.gather(*waiting, return_exceptions=True)
        self.check()

    async def flush(self) -> None:
        """Wait until all records are acknowledged or have failed."""
        if not self._under_way:
            return
        # Sending a record and waiting for its answer can each take the whole timeout.
        timeout_s = None if self._expire_s is None else 2 * self._expire_s
        _, late = await asyncio.wait(self._under_way, timeout=timeout_s)
        for acknowledged in late:
            acknowledged.cancel()

    def check(self, unit: str = "record") -> None:
        """Raise BrokerUnavailable if a record failed; the message calls a record `unit`."""
        if self.failures:
            number, reason = min(self.failures)
            raise BrokerUnavailable(
                f"{len(self.failures)} of {self.sent} records were not acknowledged; the first is "
                f"{unit} {number}: {reason}"
            )

    async def _hand_over(self, record: OutgoingRecord) -> asyncio.Future[Any]:
        topic, value, target, _ = record
        while True:
            try:
                acknowledged: asyncio.Future[Any] = await self._producer.send(
                    topic,
                    value,
                    key=target.key,
                    partition=target.partition,
                    timestamp_ms=target.timestamp_ms,
                )
            except KafkaTimeoutError:
                if self._expire_s is not None:
                    raise
                logger.warning("topic %s: no broker accepted a record for %g s", topic, REQUEST_S)
            else:
                return acknowledged

    def _settle(self, acknowledged: asyncio.Future[Any]) -> None:
        number = self._under_way.pop(acknowledged)
        if acknowledged.cancelled():
            self.failures.append((number, "no acknowledgement"))
        elif error := acknowledged.exception():
            self.failures.append((number, str(error) or type(error).__name__))


class Sender:
    """A blocking `Producer` for commands; a context manager. Records expire after `DELIVERY_S`."""

    def __init__(self, connection: Connection, *, linger_ms: int = 20) -> None:
        """Connect; raises BrokerUnavailable."""
        self._connection = connection
        self._producer = Producer(connection.settings, linger_ms=linger_ms, expire_s=DELIVERY_S)
        try:
            wait_for(self._producer.start())
        except BrokerUnavailable:
            raise connection.silent(connection.settings.connect_timeout_s) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def has_failed(self) -> bool:
        """Whether a record has failed so far."""
        return bool(self._producer.failures)

    def send(self, topic: str, message: Any) -> None:
        """Hand a message over without waiting for its acknowledgement."""
        target = place_record(TOPIC_BY_NAME[topic], message)
        self.send_records([OutgoingRecord(topic, encode(message), target)])

    def send_records(self, records: Iterable[OutgoingRecord]) -> list[asyncio.Future[Any]]:
        """Hand records over without waiting for acknowledgements; one call for many is much faster."""

        async def send() -> list[asyncio.Future[Any]]:
            return [await self._producer.send_record(record) for record in records]

        return wait_for(send())

    def flush(self, unit: str = "record") -> None:
        """Wait until all records are acknowledged.

        Raises BrokerUnavailable with `unit` and number of the first record that failed.
        """
        wait_for(self._producer.flush())
        try:
            self._producer.check(unit)
        except BrokerUnavailable as error:
            cause = self._connection.silent(DELIVERY_S)
            raise BrokerUnavailable(f"{error}. {cause}") from None

    def deliver(
        self, records: Iterable[OutgoingRecord], unit: str = "record"
    ) -> list[tuple[int, int]]:
        """Send records and wait; return partition and offset of each. Raises as `flush`."""
        waiting = self.send_records(records)
        self.flush(unit)
        return [(written.partition, written.offset) for written in (f.result() for f in waiting)]

    def close(self) -> None:
        """Disconnect; drops records without acknowledgement."""
        wait_for(self._producer.close())
