"""Samples to the broker, from a thread of its own: measuring never waits for it.

Samples wait in order until the broker has acknowledged them. While it is slow or away they are
kept up to a limit, and then the oldest are dropped and counted. A sample may arrive twice, when an
acknowledgement was lost; the aggregate stage takes it once.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from connectors.kafka.client import BrokerUnavailable, connect
from connectors.kafka.extents import partitions_of
from connectors.kafka.producer import Sender
from schemas.messages.usage import NodeUsage
from schemas.settings.connection import KafkaSettings, SettingsError
from schemas.topics.catalog import TOPIC_BY_NAME
from schemas.topics.codec import encode
from schemas.topics.records import Place, place

TOPIC = "node-usage"

#: Most samples that wait: ten minutes at one a second, which is the middle one of the windows that
#: percentiles are over by default.
SAMPLES_MAX = 600
#: Most bytes of samples that wait. One of 110 pods has 40 KB.
BYTES_MAX = 16 * 1024 * 1024
#: Most samples that are on their way at once.
BATCH_MAX = 50
#: Time between two attempts, in seconds.
RETRY_S = 5.0
#: How long the end of the process waits for what is on its way, in seconds.
_FAREWELL_S = 5.0


class UnsentSample(NamedTuple):
    """A sample that was not acknowledged yet."""

    sampled_at_ms: int
    value: bytes
    target: Place


class Delivery:
    """The samples of one process on their way."""

    def __init__(
        self,
        settings: KafkaSettings,
        on_delivered: Callable[[int], None] = lambda sampled_at_ms: None,
        on_failure: Callable[[str], None] = lambda why: None,
        retry_s: float = RETRY_S,
    ) -> None:
        """Nothing is connected before `start`.

        Args:
            settings: the broker's.
            on_delivered: called with the time of the newest sample that was acknowledged.
            on_failure: called with a sentence, after each attempt that failed.
            retry_s: time between two attempts.
        """
        self.dropped = 0
        """Samples that were given up so far."""
        self._settings, self._retry_s = settings, retry_s
        self._on_delivered, self._on_failure = on_delivered, on_failure
        self._waiting: deque[UnsentSample] = deque()
        self._batch: list[UnsentSample] = []
        self._bytes = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._sender: Sender | None = None
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)

    @property
    def backlog(self) -> int:
        """Samples that were not acknowledged yet."""
        with self._changed:
            return len(self._waiting) + len(self._batch)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put(self, sample: NodeUsage) -> None:
        """Let a sample be sent; never waits."""
        value = encode(sample)
        waiting = UnsentSample(sample.sampled_at_ms, value, place(TOPIC_BY_NAME[TOPIC], sample))
        with self._changed:
            self._waiting.append(waiting)
            self._bytes += len(value)
            self._drop_oldest()
            self._changed.notify()

    def stop(self) -> None:
        """Give what is on its way a moment, and end."""
        with self._changed:
            self._changed.wait_for(self._is_idle, timeout=0.5)
            self._stopping = True
            self._changed.notify_all()
        if self._sender is not None:
            self._sender.close()
        self._thread.join(_FAREWELL_S)

    def _is_idle(self) -> bool:
        return not self._waiting and not self._batch

    def _drop_oldest(self) -> None:
        """Hold the limits; what is on its way is not dropped, but counts."""
        while self._waiting and (
            len(self._waiting) + len(self._batch) > SAMPLES_MAX or self._bytes > BYTES_MAX
        ):
            self._bytes -= len(self._waiting.popleft().value)
            self.dropped += 1

    def _run(self) -> None:
        while self._take():
            try:
                self._send()
            except (BrokerUnavailable, SettingsError, OSError) as error:
                self._put_back()
                if not self._stopping:
                    self._on_failure(str(error))
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, timeout=self._retry_s)
            else:
                self._acknowledged()

    def _take(self) -> bool:
        """Take the oldest samples, as soon as there are any; False: it is the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or bool(self._waiting))
            while self._waiting and len(self._batch) < BATCH_MAX:
                self._batch.append(self._waiting.popleft())
            return not self._stopping

    def _send(self) -> None:
        """Send the batch; returns when it was acknowledged, raises BrokerUnavailable if not."""
        if self._sender is None:
            connection = connect(self._settings)
            partitions_of(connection, TOPIC)
            self._sender = Sender(connection)
        for each in self._batch:
            self._sender.send_value(TOPIC, each.value, each.target)
        self._sender.flush("sample")

    def _put_back(self) -> None:
        """The batch has failed: all of it waits again, and its sender remembers failures for ever."""
        if self._sender is not None:
            self._sender.close()
            self._sender = None
        with self._changed:
            self._waiting.extendleft(reversed(self._batch))
            self._batch.clear()
            self._drop_oldest()

    def _acknowledged(self) -> None:
        newest_ms = self._batch[-1].sampled_at_ms
        with self._changed:
            self._bytes -= sum(len(each.value) for each in self._batch)
            self._batch.clear()
            self._changed.notify_all()
        self._on_delivered(newest_ms)
