"""Lets clients of aiokafka go on after brokers were away, where aiokafka itself does not.

Under uvloop a write to a connection that was just lost raises an error that aiokafka does not
recognize as a lost connection. The fetch that gets it ends, and with it all reading, without a
message to the reader: an active member would stay active and never read again. And a producer gives
up a record if its partition has no leader for as long as a request may take.

The worker's clients have the same in `streams.worker.patience`, with which nothing can be shared.
"""

import math
from collections.abc import Callable
from typing import Any

from aiokafka import conn
from aiokafka.conn import AIOKafkaConnection, CloseReason
from aiokafka.errors import KafkaConnectionError, KafkaError


def never_expire(producer: Any) -> None:
    """Let a producer keep what it was given until it is acknowledged or refused."""
    producer._message_accumulator._batch_ttl = math.inf  # noqa: SLF001 - aiokafka names no other way


def mend_connections() -> None:
    """Let all further connections of aiokafka survive a write to one that has just been lost."""
    conn.AIOKafkaConnection = _Connection


class _Connection(AIOKafkaConnection):  # type: ignore[misc]  # aiokafka exports no types
    """A connection that is lost as one when a write fails, whatever the event loop says of it."""

    def send(self, *args: Any, **options: Any) -> Any:
        return self._sent(super().send, *args, **options)

    def _send_sasl_token(self, *args: Any, **options: Any) -> Any:
        return self._sent(super()._send_sasl_token, *args, **options)

    def _sent(self, send: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            return send(*args, **options)
        except KafkaError:
            raise
        except RuntimeError as error:  # of uvloop: the handler is closed
            self.close(reason=CloseReason.CONNECTION_BROKEN)
            raise KafkaConnectionError(
                f"connection to {self.host}:{self.port} broken: {error}"
            ) from error
