"""A worker process for end-to-end tests, and a client that speaks with it through Kafka."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from pydantic import BaseModel

from connectors.kafka.topics import changelog_name
from schemas.settings.connection import KafkaSettings
from schemas.storage.rows import PartitionRow
from schemas.storage.tables import PARTITION, TABLE_OF_KIND, kind_of_key
from schemas.topics.catalog import TOPIC_BY_NAME, key_of
from schemas.topics.codec import decode, encode
from tests.streams.builders import CLUSTER

#: Changelog with the row that tells how far the cluster stage has come.
POSITIONS = changelog_name(TABLE_OF_KIND[PARTITION])
#: Longest wait for something that a test expects, generous because machines are slow and shared.
PATIENCE_S = 120.0
#: Seconds after which a stopping worker ends itself: a clean stop takes long on a busy machine.
_STOP_S = 60

#: Arguments of Python that make it run `loadstream worker`.
LOADSTREAM_WORKER = ("-m", "loadstream", "worker")
#: Last log line of a worker that has lost its partitions: its session expired, or it was paused.
_GAVE_UP = "the worker was stopped by LostOwnership"


class Worker:
    """`loadstream worker` in a process of its own."""

    def __init__(
        self,
        kafka: KafkaSettings,
        directory: Path,
        program: Sequence[str] = LOADSTREAM_WORKER,
        **settings: str,
    ) -> None:
        self._program = program
        self._log = directory / "worker.log"
        self._environment = {
            **os.environ,
            "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            "LOADSTREAM_KAFKA_PARTITIONS": str(kafka.partitions),
            "LOADSTREAM_WORKER_DATA_DIR": str(directory / "worker"),
            "LOADSTREAM_WORKER_STOP_TIMEOUT_S": str(_STOP_S),
            **{f"LOADSTREAM_WORKER_{name.upper()}": value for name, value in settings.items()},
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._log_begins = 0
        """Bytes of the log that were there when it was started last."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start the process; it reads as soon as it has its partitions."""
        with self._log.open("ab") as log:
            self._log_begins = log.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, *self._program],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.ask_to_stop()
        return self.wait()

    def wait(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for its end; the exit code."""
        assert self._process is not None
        code = self._process.wait(patience_s)
        self._process = None
        return code

    def ask_to_stop(self) -> None:
        """SIGTERM, without waiting for the end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)

    def stall(self) -> None:
        """Let it stand still, as a machine without memory or a suspended one does; wait for that."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    @property
    def ended(self) -> bool:
        """Whether its process has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def whole_log(self) -> str:
        """All that it wrote, also before it was started again."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def log(self) -> str:
        """The last lines that it wrote."""
        return "\n".join(self.whole_log().splitlines()[-30:])

    @property
    def begun(self) -> bool:
        """The worker has logged its start, so SIGTERM ends it cleanly from now on."""
        with self._log.open("rb") as log:
            log.seek(self._log_begins)
            return b" begins: " in log.read()

    @property
    def gave_up(self) -> bool:
        """The worker has ended because another worker owns its partitions."""
        # Whether it has ended comes first: before that the log may lack its last line as yet.
        return self.ended and self.lost_what_it_held

    @property
    def lost_what_it_held(self) -> bool:
        """The last log line names another owner as the reason for the stop."""
        lines = self.whole_log().splitlines()
        return bool(lines) and _GAVE_UP in lines[-1]

    def check(self) -> None:
        """Fail with its log if it has died."""
        assert not self.ended, f"the worker has died:\n{self.log()}"


def _message_of(record: Any) -> Any:
    if record.topic in TOPIC_BY_NAME:
        return decode(record.topic, record.value)
    if record.value is not None and kind_of_key(record.key.decode()) == PARTITION:
        return PartitionRow.model_validate_json(record.value)
    return None


class Client:
    """Sends messages and collects the outputs."""

    def __init__(self, producer: Any, consumer: Any, worker: Worker) -> None:
        self._producer, self._consumer, self._worker = producer, consumer, worker
        self.received: list[tuple[str, Any, bytes | None]] = []
        """Topic, message (of changelogs only the partition's row) and bytes of everything that came; no bytes: a
        deletion."""

    async def send(self, topic: str, messages: Iterable[BaseModel]) -> None:
        """Send messages and wait until the broker has them."""
        sent = [
            await self._producer.send(
                topic, key=key_of(topic, message).encode(), value=encode(message)
            )
            for message in messages
        ]
        await asyncio.gather(*sent)

    async def send_raw(
        self, topic: str, value: bytes, key: str = CLUSTER, partition: int | None = None
    ) -> None:
        """Send bytes as they are; to the partition of their key if none is named."""
        await self._producer.send_and_wait(
            topic, key=key.encode(), value=value, partition=partition
        )

    async def until(self, enough: Callable[[], bool]) -> None:
        """Collect until there is enough; fails with the worker's log when it takes too long."""
        deadline = time.monotonic() + PATIENCE_S
        while not enough():
            self._worker.check()
            assert time.monotonic() < deadline, self._what_came()
            for records in (await self._consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    self.received.append((record.topic, _message_of(record), record.value))

    def _what_came(self) -> str:
        came = dict(Counter(topic for topic, *_ in self.received))
        return f"still waiting; what came: {came}; the worker:\n{self._worker.log()}"

    def applied(self, topic: str) -> int:
        """Offset of an input topic up to which the cluster stage's rows are written; -1: none."""
        positions = [
            message.offsets.get(topic, -1)
            for _, message, _ in self.received
            if isinstance(message, PartitionRow)
        ]
        return max(positions, default=-1)

    def of(self, topic: str) -> list[Any]:
        """Messages of one topic so far."""
        return [message for name, message, _ in self.received if name == topic]


@asynccontextmanager
async def client(kafka: KafkaSettings, worker: Worker, *topics: str) -> AsyncIterator[Client]:
    """A client that reads these topics from the beginning."""
    options = kafka.aiokafka_options()
    producer = AIOKafkaProducer(**options)
    consumer = AIOKafkaConsumer(*topics, auto_offset_reset="earliest", **options)
    await producer.start()
    try:
        await consumer.start()
        try:
            yield Client(producer, consumer, worker)
        finally:
            await consumer.stop()
    finally:
        await producer.stop()
