"""Keep clients of aiokafka alive while brokers are down.

aiokafka reconnects by itself, with three exceptions that are handled here:

1. A client that starts while no broker answers raises an error.
2. A producer drops records that no leader has accepted within the request timeout.
3. Under uvloop, a write to a connection that was just lost raises an error that aiokafka does not
   recognize as a lost connection, so the fetch ends the consumer without a message.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiokafka import conn
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)

T = TypeVar("T")

logger = logging.getLogger(__name__)

#: Time between two attempts, in seconds.
RETRY_S = 1.0


async def ask_until_answered(request: Callable[[], Awaitable[T]], action: str) -> T:
    """Return the result of a request, repeated until a broker answers; `action` is logged once."""
    silent = False
    while True:
        try:
            return await request()
        except KafkaError as error:
            if not is_temporary(error):
                raise
            if not silent:
                logger.warning("%s: trying again until brokers answer: %s", action, error)
            silent = True
            await asyncio.sleep(RETRY_S)


async def connect_client(create: Callable[[], Any]) -> Any:
    """Return a started client of aiokafka; waits until a broker answers."""
    return await ask_until_answered(lambda: start_client(create), "connecting")


async def start_client(create: Callable[[], Any]) -> Any:
    """Return a started client of aiokafka. Raises KafkaError if no broker answers."""
    client = create()
    try:
        await client.start()
    except BaseException:
        await client.stop()
        raise
    return client


def is_temporary(error: KafkaError) -> bool:
    """Tell whether an error ends when brokers answer again, or the topic exists again."""
    return error.retriable or isinstance(error, KafkaTimeoutError | UnknownTopicOrPartitionError)


def never_expire(producer: Any) -> None:
    """Let a producer keep records until they are acknowledged or refused."""
    producer._message_accumulator._batch_ttl = math.inf  # noqa: SLF001 - aiokafka names no other way


class _Connection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka has no types
    """A connection that closes when a write fails, whatever error the event loop raises."""

    def send(self, *args: Any, **options: Any) -> Any:
        return self._close_on_error(super().send, *args, **options)

    def _send_sasl_token(self, *args: Any, **options: Any) -> Any:
        return self._close_on_error(super()._send_sasl_token, *args, **options)

    def _close_on_error(self, send: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            return send(*args, **options)
        except KafkaError:
            raise
        except RuntimeError as error:  # of uvloop: the handler is closed
            self.close(reason=CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(
                f"Connection at {self.host}:{self.port} broken: {error}"
            ) from error


def mend_connections() -> None:
    """Let new connections of aiokafka survive a write after a lost connection."""
    conn.AIOKafkaConnection = _Connection
