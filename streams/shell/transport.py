"""Faust's app and its Kafka transport, with what Faust has no settings for.

Faust lets a fetch of idle partitions wait for 1.5 s at the broker, without a setting for it. A broker may
hold back one partition's records for as long while another one is idle; the embedded broker does. That
would be the latency of a decision, so the wait is shortened before the consumer starts.

Faust starts an app's tasks only when its tables are recovered; its companion runs from the start on.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import faust
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport


class _PromptThread(AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        app: Any = self.app
        consumer._fetch_max_wait_ms = app.fetch_wait_ms  # noqa: SLF001 - Faust names no other way
        return consumer


class _PromptConsumer(Consumer):
    def _new_consumer_thread(self) -> Any:
        return _PromptThread(self, loop=self.loop, beacon=self.beacon)


class PromptTransport(Transport):
    """The transport of a worker."""

    Consumer = _PromptConsumer


class WorkerApp(faust.App):
    """A Faust app that reads through `PromptTransport`."""

    fetch_wait_ms: int = 100
    """Longest time that the broker waits for records before it answers a fetch with none."""
    companion: Callable[[], Awaitable[None]] | None = None
    """Runs beside the agents, also while tables are recovered; cancelled at the end."""

    async def on_start(self) -> None:
        """Start the companion with the app."""
        await super().on_start()
        if self.companion is not None:
            self.add_future(self.companion())

    def _new_transport(self) -> Any:
        return PromptTransport(self.conf.broker_consumer, self)
