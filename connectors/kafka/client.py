"""Connections of commands: a broker answers within a limited time, or an error explains the failure.

librdkafka retries forever and reports causes separately from failures. This module reports the
address, the cause and advice in one error. A refused login or certificate fails immediately, because
waiting does not help. An address that does not answer is retried, because the broker may be starting.
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from connectors.kafka.diagnosis import explain
from schemas.settings.connection import EMBEDDED_CLUSTER_ID_PREFIX, KafkaSettings

#: Time without an answer after which the terminal shows that the command waits.
_NOTICE_AFTER_S = 1.0
_ATTEMPT_S = 0.25


class BrokerUnavailable(RuntimeError):
    """No broker can be used; the message has address, cause and advice."""


@dataclass(slots=True)
class Failures:
    """Errors reported by librdkafka; pass `note` to a client as its `error_cb`."""

    texts: dict[str, None] = field(default_factory=dict)
    """Distinct errors in order of arrival (an ordered set)."""
    hopeless: bool = False
    """True: waiting does not help."""

    def note(self, error: Any) -> None:
        if error.name() == "_ALL_BROKERS_DOWN":
            return  # a consequence of the other errors
        refused = error.name() in ("_AUTHENTICATION", "_SSL") or "SSL alert" in error.str()
        if refused or error.fatal():
            self.hopeless = True
        # Without "(after 3ms in state CONNECT, 7 identical error(s) suppressed)", which varies.
        self.texts[error.str().split(" (after ")[0]] = None

    def explain(self, settings: KafkaSettings, waited_s: float) -> str:
        """Return address, cause and advice as sentences."""
        return explain(settings, list(self.texts), None if self.hopeless else waited_s)


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection to brokers that have answered."""

    settings: KafkaSettings
    admin: Any
    """confluent_kafka.admin.AdminClient."""
    failures: Failures
    embedded: bool
    """True: librdkafka's mock cluster, which reports less."""
    brokers: int
    """Number of brokers."""

    def read_metadata(self, topic: str | None = None) -> Any:
        """Return the brokers, and one topic or all topics; raises BrokerUnavailable."""
        timeout_s = self.settings.connect_timeout_s
        try:
            return self.admin.list_topics(topic, timeout=timeout_s)
        except KafkaException:
            raise self.silent(timeout_s) from None

    def silent(self, waited_s: float) -> BrokerUnavailable:
        """Return an error which says that no broker answered, and why."""
        self.admin.poll(0)  # runs the error callback
        return BrokerUnavailable(self.failures.explain(self.settings, waited_s))

    def refusal(self, action: str, name: str, error: Any) -> BrokerUnavailable:
        """Return an error which says that a broker refused an action, and why."""
        servers = ",".join(self.settings.servers())
        return BrokerUnavailable(f"{servers} did not {action} {name}: {error.args[0].str()}")


def connect(settings: KafkaSettings) -> Connection:
    """Connect within `settings.connect_timeout_s`; raises BrokerUnavailable."""
    failures = Failures()
    settings.ssl_context()  # reads the TLS files: its errors name the file, librdkafka's do not
    admin = AdminClient(client_options(settings, failures))
    began = time.monotonic()
    is_announced = False
    while True:
        try:
            metadata = admin.list_topics(timeout=_ATTEMPT_S)
            break
        except KafkaException:
            admin.poll(0)  # runs the error callback
            waited_s = time.monotonic() - began
            if failures.hopeless or waited_s >= settings.connect_timeout_s:
                raise BrokerUnavailable(failures.explain(settings, waited_s)) from None
            if not is_announced and waited_s > _NOTICE_AFTER_S and sys.stderr.isatty():
                print(f"waiting for {','.join(settings.servers())} ...", file=sys.stderr)
                is_announced = True
    return Connection(
        settings=settings,
        admin=admin,
        failures=failures,
        embedded=str(metadata.cluster_id or "").startswith(EMBEDDED_CLUSTER_ID_PREFIX),
        brokers=len(metadata.brokers),
    )


def client_options(settings: KafkaSettings, failures: Failures) -> dict[str, Any]:
    """Return the properties of a confluent-kafka client that reports its errors to `failures`."""
    return {
        **settings.librdkafka_options(),
        "error_cb": failures.note,
        # librdkafka would also print the errors.
        "log_level": 0,
    }


T = TypeVar("T")


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of commands, which runs in a thread until the process ends."""
    # Otherwise Python prints the log of aiokafka if logging is not configured.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="kafka", daemon=True).start()
    return loop


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the event loop and return its result; Ctrl-C cancels the coroutine."""
    future = asyncio.run_coroutine_threadsafe(work, event_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
