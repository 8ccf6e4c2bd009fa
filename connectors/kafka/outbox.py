"""Send records without blocking the event loop, for processes between Kafka and a cluster.

Guarantees are those of `producer.Sender`: acknowledged by all replicas, no duplicates by retries, keys
determine partitions. While brokers are down or a partition has no leader, records and callers wait
without a limit. At the end, waiting records are dropped after `CLOSE_S`.

If a broker refuses a record, this or the next call raises. The process then ends, and work that is not
marked as done is repeated. A record that no reader would accept is refused before it is sent.
"""

import asyncio
import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from aiokafka.errors import KafkaError, KafkaTimeoutError

from connectors.kafka.client import BrokerUnavailable
from connectors.kafka.producer import start_producer
from connectors.kafka.reconnect import never_expire
from schemas.base.limits import VALUE_BYTES_MAX
from schemas.settings.connection import KafkaSettings
from schemas.topics.catalog import TOPIC_BY_NAME
from schemas.topics.codec import encode
from schemas.topics.records import RecordPlace, place_record

logger = logging.getLogger(__name__)

#: Timeout of one request, or of handing over one record, in seconds; then it is logged and retried.
REQUEST_S = 60.0
#: How long to wait for records at the end, in seconds: less than Kubernetes waits between SIGTERM and
#: SIGKILL.
CLOSE_S = 15.0
#: Most records without acknowledgement; further calls of `send` wait.
UNDER_WAY_MAX = 5_000


class RecordTooLong(ValueError):
    """A message that no reader would accept, because it is too long."""


class Outbox:
    def __init__(self, kafka: KafkaSettings, *, linger_ms: int = 5) -> None:
        """`linger_ms` is how long a record may wait to be sent together with others."""
        self.sent = 0
        """Number of records handed over so far."""
        self._kafka = kafka
        self._linger_ms = linger_ms
        self._producer: Any = None
        self._room = asyncio.Semaphore(UNDER_WAY_MAX)
        self._under_way: set[asyncio.Future[Any]] = set()
        self._failed: BaseException | None = None

    async def __aenter__(self) -> Self:
        try:
            self._producer = await start_producer(
                self._kafka,
                linger_ms=self._linger_ms,
                max_batch_size=256 * 1024,
                request_timeout_ms=round(REQUEST_S * 1000),
            )
        except KafkaError as error:
            raise BrokerUnavailable(f"no broker answers: {error}") from error
        never_expire(self._producer)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._producer.stop()
        except TimeoutError:
            count = len(self._under_way)
            logger.warning("%d records were not acknowledged after %g s: dropped", count, CLOSE_S)
            await self._producer.client.close()

    async def send(self, topic: str, message: Any) -> asyncio.Future[Any]:
        """Hand a message over; waits while too many are without acknowledgement.

        The returned future is done when the record is acknowledged. Raises RecordTooLong, and
        BrokerUnavailable if a broker refused an earlier record.
        """
        self.check()
        value = encode(message)
        if len(value) > VALUE_BYTES_MAX:
            raise RecordTooLong(
                f"topic {topic}: the record has {len(value)} bytes; expected at most "
                f"{VALUE_BYTES_MAX}"
            )
        target = place_record(TOPIC_BY_NAME[topic], message)
        await self._room.acquire()
        try:
            acknowledged = await self._hand_over(topic, value, target)
        except BaseException as error:
            self._room.release()
            if isinstance(error, KafkaError):
                why = str(error) or type(error).__name__
                raise BrokerUnavailable(f"topic {topic}: {why}") from error
            raise
        self.sent += 1
        self._under_way.add(acknowledged)
        acknowledged.add_done_callback(self._handle_result)
        return acknowledged

    async def _hand_over(
        self, topic: str, value: bytes, target: RecordPlace
    ) -> asyncio.Future[Any]:
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
                logger.warning("topic %s: no broker accepted a record for %g s", topic, REQUEST_S)
            else:
                return acknowledged

    async def deliver(self, topic: str, messages: Iterable[Any]) -> None:
        """Send messages and wait until they are acknowledged; raises BrokerUnavailable."""
        waiting = [await self.send(topic, message) for message in messages]
        await asyncio.gather(*waiting, return_exceptions=True)
        self.check()

    async def flush(self) -> None:
        """Wait until all records are acknowledged; raises BrokerUnavailable."""
        await asyncio.gather(*self._under_way, return_exceptions=True)
        self.check()

    def check(self) -> None:
        """Raise BrokerUnavailable if a broker has refused a record."""
        if self._failed is not None:
            why = str(self._failed) or type(self._failed).__name__
            raise BrokerUnavailable(f"the broker refused a record: {why}")

    def _handle_result(self, acknowledged: asyncio.Future[Any]) -> None:
        self._under_way.discard(acknowledged)
        self._room.release()
        if not acknowledged.cancelled() and (error := acknowledged.exception()) is not None:
            self._failed = error
