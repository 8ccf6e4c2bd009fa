"""A broker inside this process: librdkafka's mock cluster, part of confluent-kafka.

It speaks Kafka's protocol on a local port, so the demo and the quick tests need no installation. It
differs from Kafka:

- A partition keeps about 5 MB; older records disappear silently. So it is only for short runs.
- Topics are created when a client requests their metadata, always with `EMBEDDED_PARTITIONS` partitions.
- Requests to create topics or to read their settings are not answered and time out.
- Retention, compaction, offsets by time, transactions, encryption and logins do not exist.
- A consumer group needs about 3 s until its first record.
- The system chooses the port. All data is lost when the process ends.
"""

from typing import Any, Self

from confluent_kafka import Producer

from connectors.kafka.topics import expected_names
from connectors.process.child_process import Startable
from schemas.settings.connection import KafkaSettings

_START_TIMEOUT_S = 10.0
#: syslog level "error"; otherwise librdkafka prints a greeting on standard error.
_LOG_ERRORS = 3


class EmbeddedBroker(Startable):
    """A mock cluster, which runs in threads of librdkafka.

    Starting takes milliseconds and creates all expected topics.
    """

    def __init__(self, brokers: int = 1) -> None:
        self._brokers = brokers
        self._owner: Any = None
        self._bootstrap_servers = ""

    def start(self) -> Self:
        # librdkafka requires an address and replaces it with those of the mock cluster.
        options = {"test.mock.num.brokers": self._brokers, "bootstrap.servers": "127.0.0.1:0"}
        self._owner = Producer({**options, "log_level": _LOG_ERRORS})
        nodes = self._owner.list_topics(timeout=_START_TIMEOUT_S).brokers.values()
        self._bootstrap_servers = ",".join(sorted(f"{node.host}:{node.port}" for node in nodes))
        for name in expected_names():
            self._owner.list_topics(name, timeout=_START_TIMEOUT_S)
        return self

    def stop(self) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.close()

    @property
    def bootstrap_servers(self) -> str:
        """Addresses as `host:port,host:port`."""
        if self._owner is None:
            raise RuntimeError("the embedded broker is not running; call start() or use `with`")
        return self._bootstrap_servers

    @property
    def settings(self) -> KafkaSettings:
        """Client settings for this broker."""
        return KafkaSettings.local(self.bootstrap_servers)
