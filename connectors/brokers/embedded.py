"""A broker inside this process: librdkafka's mock cluster, which confluent-kafka carries.

It speaks Kafka's protocol on a local port, so the demo and the quick tests need nothing installed.
It is no Kafka, and what it does differently must be known:

- A partition keeps about 5 MB; older records vanish without a trace. It is for minutes, not for
  history.
- Topics come into being when a client asks for their metadata, with `PARTITIONS`, always.
- Requests to create topics or to read their settings are not answered: clients wait until they time
  out.
- Retention, compaction, offsets by time, transactions, encryption and logins do not exist.
- A consumer group needs about 3 s before its first record.
- The port is chosen by the system and cannot be set; with the process everything is gone.
"""

from typing import Any, Self

from connectors.kafka.topics import expected_names
from connectors.process.child_process import Startable
from schemas.settings.connection import KafkaSettings

#: Of every topic; nothing can change it.
PARTITIONS = 4
_START_TIMEOUT_S = 10.0
#: syslog's number; librdkafka would otherwise greet on standard error.
_LOG_ERRORS = 3


class EmbeddedBroker(Startable):
    """Context manager around a mock cluster; it runs in threads of librdkafka, beside asyncio.

    Starting takes milliseconds. All expected topics exist when it has started.
    """

    def __init__(self, brokers: int = 1) -> None:
        self._brokers = brokers
        self._owner: Any = None
        self._bootstrap_servers = ""

    def start(self) -> Self:
        """Open the ports and make the topics."""
        from confluent_kafka import Producer

        # librdkafka asks for an address and then replaces it by those of the mock cluster.
        options = {"test.mock.num.brokers": self._brokers, "bootstrap.servers": "127.0.0.1:0"}
        self._owner = Producer({**options, "log_level": _LOG_ERRORS})
        found = self._owner.list_topics(timeout=_START_TIMEOUT_S).brokers.values()
        self._bootstrap_servers = ",".join(sorted(f"{node.host}:{node.port}" for node in found))
        for name in expected_names():
            self._owner.list_topics(name, timeout=_START_TIMEOUT_S)
        return self

    def stop(self) -> None:
        """Close the ports and forget everything."""
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
        """Settings with which every client reaches it."""
        return KafkaSettings.local(self.bootstrap_servers)
