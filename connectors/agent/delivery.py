"""Send samples to the broker from a separate thread, so that measuring never waits.

Samples wait in order until the broker acknowledges them. If the broker is slow or down, the oldest
samples beyond a limit are dropped and counted. A sample can arrive twice if an acknowledgement was
lost; the aggregate stage ignores the copy.
"""

import threading
from collections import deque
from collections.abc import Callable
from itertools import islice

from connectors.kafka.client import BrokerUnavailable, connect
from connectors.kafka.extents import count_partitions
from connectors.kafka.producer import OutgoingRecord, Sender
from schemas.messages.usage import NodeUsage
from schemas.settings.connection import KafkaSettings
from schemas.settings.environment import SettingsError
from schemas.topics.catalog import TOPIC_BY_NAME, place_record
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
#: How long `close` waits for the thread, in seconds.
_STOP_TIMEOUT_S = 5.0


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
        self._settings, self._retry_s = settings, retry_s
        self._on_delivered, self._on_failure = on_delivered, on_failure
        self._waiting: deque[tuple[int, OutgoingRecord]] = deque()
        """Time and record of each sample without acknowledgement, oldest first."""
        self._sending = 0
        """Number of waiting samples that are being sent: the oldest."""
        self._bytes = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._sender: Sender | None = None
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)

    @property
    def backlog(self) -> int:
        """Number of samples without acknowledgement."""
        return len(self._waiting)

    def start(self) -> None:
        self._thread.start()

    def put(self, sample: NodeUsage) -> int:
        """Queue a sample without waiting; return how many older samples were dropped."""
        target = place_record(TOPIC_BY_NAME[TOPIC], sample)
        record = OutgoingRecord(TOPIC, encode(sample), target)
        dropped = 0
        with self._changed:
            self._waiting.append((sample.sampled_at_ms, record))
            self._bytes += len(record.value or b"")
            while len(self._waiting) > self._sending and (
                len(self._waiting) > SAMPLES_MAX or self._bytes > BYTES_MAX
            ):
                self._remove(self._sending)  # the oldest sample that is not being sent
                dropped += 1
            self._changed.notify()
        return dropped

    def close(self) -> None:
        """Wait a moment for queued samples, then end the thread."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, timeout=0.5)
            self._stopping = True
            self._changed.notify_all()
        if self._sender is not None:
            self._sender.close()
        self._thread.join(_STOP_TIMEOUT_S)

    def _remove(self, index: int) -> None:
        _, record = self._waiting[index]
        self._bytes -= len(record.value or b"")
        del self._waiting[index]

    def _run(self) -> None:
        while batch := self._take_batch():
            try:
                self._send([record for _, record in batch])
            except (BrokerUnavailable, SettingsError, OSError) as error:
                if self._sender is not None:  # it cannot send after a failure
                    self._sender.close()
                    self._sender = None
                if not self._stopping:
                    self._on_failure(str(error))
                with self._changed:
                    self._sending = 0
                    self._changed.wait_for(lambda: self._stopping, timeout=self._retry_s)
            else:
                with self._changed:
                    for _ in batch:
                        self._remove(0)
                    self._sending = 0
                    self._changed.notify_all()
                self._on_delivered(batch[-1][0])

    def _take_batch(self) -> list[tuple[int, OutgoingRecord]]:
        """Wait for samples and return the oldest, which stay queued; empty at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or bool(self._waiting))
            batch = [] if self._stopping else list(islice(self._waiting, BATCH_MAX))
            self._sending = len(batch)
            return batch

    def _send(self, records: list[OutgoingRecord]) -> None:
        """Send records and wait for their acknowledgement; raises BrokerUnavailable."""
        if self._sender is None:
            connection = connect(self._settings)
            count_partitions(connection, TOPIC)
            self._sender = Sender(connection)
        self._sender.deliver(records, "sample")
