"""Send samples to the broker from a separate thread, so that measuring never waits.

Samples wait in order until the broker acknowledges them. If the broker is slow or down, the oldest
samples beyond a limit are dropped and counted. A sample can arrive twice if an acknowledgement was
lost; the aggregate stage ignores the copy.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from connectors.kafka.client import BrokerUnavailable, connect
from connectors.kafka.extents import count_partitions
from connectors.kafka.producer import OutgoingRecord, Sender
from schemas.messages.usage import NodeUsage
from schemas.settings.connection import KafkaSettings
from schemas.settings.environment import SettingsError
from schemas.topics.catalog import TOPIC_BY_NAME, RecordPlace, place_record
from schemas.topics.codec import encode

TOPIC = "node-usage"

#: Most waiting samples: ten minutes at one per second, the second of three default percentile windows.
SAMPLES_MAX = 600
#: Most bytes of waiting samples. A sample with 110 pods has 40 KB.
BYTES_MAX = 16 * 1024 * 1024
#: Most samples per batch.
BATCH_MAX = 50
#: Time between two attempts, in seconds.
RETRY_S = 5.0
#: How long `stop` waits for the thread, in seconds.
_STOP_TIMEOUT_S = 5.0


class UnsentSample(NamedTuple):
    """A sample without acknowledgement."""

    sampled_at_ms: int
    value: bytes
    target: RecordPlace


class Delivery:
    """Sends the samples of one process."""

    def __init__(
        self,
        settings: KafkaSettings,
        on_delivered: Callable[[int], None] = lambda sampled_at_ms: None,
        on_failure: Callable[[str], None] = lambda why: None,
        retry_s: float = RETRY_S,
    ) -> None:
        """Prepare the delivery; nothing connects before `start`.

        Args:
            settings: how to reach the broker.
            on_delivered: called with the time of the newest acknowledged sample.
            on_failure: called with a sentence after each failed attempt.
            retry_s: time between two attempts.
        """
        self.dropped = 0
        """Number of dropped samples so far."""
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
        """Number of samples without acknowledgement."""
        with self._changed:
            return len(self._waiting) + len(self._batch)

    def start(self) -> None:
        self._thread.start()

    def put(self, sample: NodeUsage) -> None:
        """Queue a sample without waiting."""
        value = encode(sample)
        waiting = UnsentSample(
            sample.sampled_at_ms, value, place_record(TOPIC_BY_NAME[TOPIC], sample)
        )
        with self._changed:
            self._waiting.append(waiting)
            self._bytes += len(value)
            self._drop_oldest()
            self._changed.notify()

    def stop(self) -> None:
        """Wait a moment for queued samples, then end the thread."""
        with self._changed:
            self._changed.wait_for(self._is_idle, timeout=0.5)
            self._stopping = True
            self._changed.notify_all()
        if self._sender is not None:
            self._sender.close()
        self._thread.join(_STOP_TIMEOUT_S)

    def _is_idle(self) -> bool:
        return not self._waiting and not self._batch

    def _drop_oldest(self) -> None:
        """Enforce the limits. The current batch counts, but is not dropped."""
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
                self._complete_batch()

    def _take(self) -> bool:
        """Wait for samples and move the oldest into the batch; False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or bool(self._waiting))
            while self._waiting and len(self._batch) < BATCH_MAX:
                self._batch.append(self._waiting.popleft())
            return not self._stopping

    def _send(self) -> None:
        """Send the batch and wait for its acknowledgement; raises BrokerUnavailable."""
        if self._sender is None:
            connection = connect(self._settings)
            count_partitions(connection, TOPIC)
            self._sender = Sender(connection)
        self._sender.deliver(
            (OutgoingRecord(TOPIC, sample.value, sample.target) for sample in self._batch), "sample"
        )

    def _put_back(self) -> None:
        """Queue the failed batch again, and drop the sender, which cannot send after a failure."""
        if self._sender is not None:
            self._sender.close()
            self._sender = None
        with self._changed:
            self._waiting.extendleft(reversed(self._batch))
            self._batch.clear()
            self._drop_oldest()

    def _complete_batch(self) -> None:
        newest_ms = self._batch[-1].sampled_at_ms
        with self._changed:
            self._bytes -= sum(len(sample.value) for sample in self._batch)
            self._batch.clear()
            self._changed.notify_all()
        self._on_delivered(newest_ms)
