"""Connections for commands: an answer within a bounded time, or a reason that can be acted on.

librdkafka retries for ever and reports the cause on another channel than the failure. Here both are
joined: what is wrong, at which address, and what to do. A refused login or certificate fails at
once, since waiting does not mend it; an address that does not answer is waited for, because a
broker that starts looks the same.
"""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from connectors.kafka.diagnosis import explain
from schemas.settings.connection import EMBEDDED_CLUSTER_ID_PREFIX, KafkaSettings

#: After this time without an answer a terminal shows what is waited for.
_PATIENCE_S = 1.0
_SLICE_S = 0.25


class BrokerUnavailable(RuntimeError):
    """No broker can be used; the message names the address, the cause and what to do."""


@dataclass(slots=True)
class Failures:
    """What librdkafka has reported; give `note` to a client as its `error_cb`."""

    texts: dict[str, None] = field(default_factory=dict)
    """In the order of arrival, each once."""
    hopeless: bool = False
    """Whether one of them will not mend itself."""

    def note(self, error: Any) -> None:
        """Take in one error."""
        if error.name() == "_ALL_BROKERS_DOWN":
            return  # it follows from the others
        refused = error.name() in ("_AUTHENTICATION", "_SSL") or "SSL alert" in error.str()
        if refused or error.fatal():
            self.hopeless = True
        # "(after 3ms in state CONNECT, 7 identical error(s) suppressed)": each time another one.
        self.texts[error.str().split(" (after ")[0]] = None

    def explain(self, settings: KafkaSettings, waited_s: float) -> str:
        """Address, cause and remedy as sentences."""
        return explain(settings, self.texts, None if self.hopeless else waited_s)


@dataclass(frozen=True, slots=True)
class Connection:
    """A broker that has answered."""

    settings: KafkaSettings
    admin: Any
    """confluent_kafka.admin.AdminClient."""
    failures: Failures
    embedded: bool
    """Whether it is librdkafka's mock cluster, of which less can be known."""
    brokers: int
    """How many there are."""

    def ask(self, request: Callable[[float], Any]) -> Any:
        """What `request` gets within the time that it is given; raises BrokerUnavailable."""
        from confluent_kafka import KafkaException

        timeout_s = self.settings.connect_timeout_s
        try:
            return request(timeout_s)
        except KafkaException:
            raise self.silent(timeout_s) from None

    def silent(self, waited_s: float) -> BrokerUnavailable:
        """That no broker has answered, and why."""
        self.admin.poll(0)  # runs the error callback
        return BrokerUnavailable(self.failures.explain(self.settings, waited_s))

    def refusal(self, action: str, name: str, error: Any) -> BrokerUnavailable:
        """That a broker did not do something, and what it said."""
        servers = ",".join(self.settings.servers())
        return BrokerUnavailable(f"{servers} did not {action} {name}: {error.args[0].str()}")


def connect(settings: KafkaSettings) -> Connection:
    """Connect within `settings.connect_timeout_s`; raises BrokerUnavailable."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    failures = Failures()
    admin = AdminClient(_checked(settings, client_options(settings, failures)))
    began = time.monotonic()
    noticed = False
    while True:
        try:
            metadata = admin.list_topics(timeout=_SLICE_S)
            break
        except KafkaException:
            admin.poll(0)  # runs the error callback
            waited_s = time.monotonic() - began
            if failures.hopeless or waited_s >= settings.connect_timeout_s:
                raise BrokerUnavailable(failures.explain(settings, waited_s)) from None
            if not noticed and waited_s > _PATIENCE_S and sys.stderr.isatty():
                print(f"waiting for {','.join(settings.servers())} ...", file=sys.stderr)
                noticed = True
    return Connection(
        settings=settings,
        admin=admin,
        failures=failures,
        embedded=str(metadata.cluster_id or "").startswith(EMBEDDED_CLUSTER_ID_PREFIX),
        brokers=len(metadata.brokers),
    )


def client_options(settings: KafkaSettings, failures: Failures, **more: Any) -> dict[str, Any]:
    """Properties of a confluent-kafka client that reports its errors to `failures` alone."""
    return {
        **settings.librdkafka_options(),
        "error_cb": failures.note,
        # Failures are reported once, in sentences; librdkafka would also print them as they happen.
        "log_level": 0,
        **more,
    }


def _checked(settings: KafkaSettings, options: dict[str, Any]) -> dict[str, Any]:
    """Let Python's TLS read the files first, as its errors name the file; librdkafka's do not."""
    settings.ssl_context()
    return options


T = TypeVar("T")


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop, which runs in a thread until the process ends."""
    # Without a log, Python would print what the clients log; failures reach callers as errors.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="kafka", daemon=True).start()
    return loop


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work in the loop; an interrupt, such as Ctrl-C, cancels the work."""
    future = asyncio.run_coroutine_threadsafe(work, event_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
