"""A real Apache Kafka on this machine, in KRaft mode, for tests, benchmarks and chaos runs.

`KafkaServer` starts one or several combined brokers (each is broker and controller), kills and
restarts single ones and stops them all. Every broker is a Java process with a guard beside it that
kills it when the process that started it is gone, however that ended, so nothing is left running.
Data stays in the given directory: a server started there again has the records of the last one.

With three brokers or more everything has three copies, so any one may be killed. Rebalances start
at once and buffers are small: it is made for short runs on one machine, not for production.
"""

import socket
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from connectors.brokers.class_archive import archived_classes
from connectors.brokers.distribution import KafkaUnavailable
from connectors.brokers.process import Broker, complaint
from connectors.brokers.storage import format_storage
from connectors.kafka.admin import create_topics
from connectors.kafka.client import BrokerUnavailable, connect
from connectors.kafka.topics import expected_topics
from connectors.process.child_process import Startable
from connectors.process.local_ports import HOST, free_port
from schemas.settings.connection import KafkaSettings

_START_TIMEOUT_S = 120.0
_BIND_ATTEMPTS = 3
_BIND_FAILED = "Address already in use"

_FIXED_PROPERTIES = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    # Topics are made on purpose and checked; a misspelt name must not become one.
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    # Kafka waits 3 s for further consumers; here they are all there at once.
    "group.initial.rebalance.delay.ms": "0",
    # How soon a killed broker is missed: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Two records a second that say nothing: a third of what an idle broker takes.
    "metadata.max.idle.interval.ms": "0",
    # Few threads and small buffers: it shares the machine with what is tested.
    "num.network.threads": "2",
    "num.io.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.cleaner.backoff.ms": "1000",
}


@dataclass
class KafkaServer(Startable):
    """Real brokers in `directory`; a context manager, or start() and stop()."""

    directory: Path
    brokers: int = 1
    port: int | None = None
    """Port of the first broker, the others follow; None: free ones."""
    listeners: Mapping[str, str] = field(default_factory=dict)
    """Listeners beside PLAINTEXT: name to protocol, for example {"SECURE": "SASL_SSL"}."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Further lines of server.properties; they go over those made here."""
    scram_users: Mapping[str, str] = field(default_factory=dict)
    """Users of SCRAM-SHA-256 and SCRAM-SHA-512 with their passwords, known from the start."""
    java_options: tuple[str, ...] | None = None
    """Further options of Java; None: those that use the class archive."""
    _members: list[Broker] = field(default_factory=list, init=False)

    def start(self) -> Self:
        """Start all brokers and wait until all of them answer.

        Raises KafkaUnavailable if Java, Maven or the jars are missing, a given port is taken or a
        broker does not start.
        """
        if self.port is not None:
            for port in range(self.port, self.port + self.brokers):
                _check_free(port)
        if self.java_options is None:
            self.java_options = archived_classes(_train)
        for attempts_left in reversed(range(_BIND_ATTEMPTS)):
            self._members = self._choose_ports()
            try:
                for member in self._members:
                    self._prepare(member)
                for member in self._members:
                    member.launch()
                self._wait_until_ready()
            except BaseException as error:
                self.stop()
                # Between choosing a free port and binding it another process may take it.
                if self.port is None and attempts_left and _BIND_FAILED in str(error):
                    continue
                raise
            break
        return self

    def stop(self) -> None:
        """Stop all brokers cleanly; one that does not end within 30 s is killed."""
        for member in self._members:
            member.ask_to_stop()
        for member in self._members:
            member.wait_for_end()

    def kill_broker(self, number: int = 1) -> None:
        """End one broker at once (SIGKILL), as a crash would."""
        self._member(number).kill()

    def start_broker(self, number: int = 1) -> None:
        """Start a broker that was killed, on its old port and data; waits for it."""
        if self.pid(number) is None:
            self._member(number).launch()
        self._wait_until_ready()

    def pid(self, number: int = 1) -> int | None:
        """Process id of a broker; None if it does not run."""
        return self._member(number).pid

    def was_killed(self, number: int = 1) -> bool:
        """Whether a broker ended by a signal, before it was done, when it ended last."""
        status = self._member(number).ended_with
        return status is not None and status < 0

    def last_words(self, number: int = 1) -> str:
        """What a broker's log says, for a sentence: the log may be gone when that is read."""
        return _last_words(self._member(number))

    def address(self, listener: str = "PLAINTEXT") -> str:
        """Addresses of a listener of all brokers, as `host:port,host:port`."""
        return ",".join(f"{HOST}:{member.ports[listener]}" for member in self._members)

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of the plain listeners."""
        return self.address()

    @property
    def settings(self) -> KafkaSettings:
        """Settings with which every client reaches the plain listeners."""
        return KafkaSettings.local(self.bootstrap_servers)

    def _member(self, number: int) -> Broker:
        if not 1 <= number <= len(self._members):
            raise ValueError(f"there is no broker {number}; there are {len(self._members)}, from 1")
        return self._members[number - 1]

    def _choose_ports(self) -> list[Broker]:
        members: list[Broker] = []
        taken: set[int] = set()
        for number in range(1, self.brokers + 1):
            ports = {
                name: free_port(taken) for name in ("PLAINTEXT", "CONTROLLER", *self.listeners)
            }
            if self.port is not None:
                ports["PLAINTEXT"] = self.port + number - 1
            directory = self.directory.absolute() / f"broker-{number}"
            members.append(Broker(directory, number, ports, self.java_options or ()))
        return members

    def _prepare(self, member: Broker) -> None:
        """Write its settings and, if it is new, format its storage."""
        member.directory.mkdir(parents=True, exist_ok=True)
        values = self._server_properties(member) | dict(self.properties)
        # A value may hold line ends (certificates do); this format wants them escaped.
        lines = (f"{name}={value}".replace("\n", "\\n") for name, value in values.items())
        member.configuration.touch(mode=0o600)
        member.configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
        format_storage(member, self.scram_users)

    def _server_properties(self, member: Broker) -> dict[str, str]:
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **self.listeners}
        addresses = {name: f"{name}://{HOST}:{port}" for name, port in member.ports.items()}
        voters = (f"{m.number}@{HOST}:{m.ports['CONTROLLER']}" for m in self._members)
        # With three brokers any one may be killed, and groups and topics go on.
        copies = str(min(self.brokers, 3))
        in_sync = "2" if self.brokers > 2 else "1"
        return _FIXED_PROPERTIES | {
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
            "node.id": str(member.number),
            "listeners": ",".join(addresses.values()),
            "advertised.listeners": ",".join(a for n, a in addresses.items() if n != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(member.directory / "data"),
        }

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        launched = [member for member in self._members if member.launched]
        for member in launched:
            # Each is asked itself: the others still name a killed broker for some seconds.
            while not _answers(f"{HOST}:{member.ports['PLAINTEXT']}", brokers=len(launched)):
                if member.pid is None:
                    raise KafkaUnavailable(
                        f"broker {member.number} ended while it started; {_last_words(member)}"
                    )
                if time.monotonic() > deadline:
                    raise KafkaUnavailable(
                        f"broker {member.number} did not answer at {HOST}:{member.ports['PLAINTEXT']} "
                        f"within {_START_TIMEOUT_S:.0f} s; {_last_words(member)}"
                    )
                time.sleep(0.05)


def _check_free(port: int) -> None:
    """Raises KafkaUnavailable where something listens on the port: it may be a broker that answers,
    and would be taken for ours."""
    with socket.socket() as probe:
        # As Java does: connections of before that are not forgotten yet take no port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise KafkaUnavailable(
                f"port {port} of {HOST} cannot be listened on: {error.strerror}; expected one that is "
                "free"
            ) from None


def _train(option: str) -> None:
    """Run a broker with an option of Java, through what every one does.

    Raises what clients of a broker raise, and KafkaUnavailable where its process did not come to its
    end: what it was writing then is half written.
    """
    from confluent_kafka import Consumer, Producer

    scratch = tempfile.TemporaryDirectory(prefix="loadstream-kafka-")
    with scratch as directory, KafkaServer(Path(directory), java_options=(option,)) as server:
        topic = next(each for each in expected_topics(server.settings) if each.name == "clock")
        create_topics(connect(server.settings), (topic,))
        options = {**server.settings.librdkafka_options(), "log_level": 0}
        producer = Producer(options)
        producer.produce(topic.name, b"trained")
        producer.flush(_START_TIMEOUT_S)
        consumer = Consumer({**options, "group.id": "trained", "auto.offset.reset": "earliest"})
        consumer.subscribe([topic.name])
        consumer.poll(_START_TIMEOUT_S)
        consumer.close()
    if server.was_killed():
        raise KafkaUnavailable("the broker was killed before it had written its classes")


def _last_words(member: Broker) -> str:
    return f"its log {member.log} says:\n{complaint(member.output())}"


def _answers(address: str, brokers: int) -> bool:
    """Whether the broker at this address answers and knows of that many brokers."""
    host, port = address.split(":")
    try:
        # The client reports each refused connection and doubles its pauses; so knock first.
        socket.create_connection((host, int(port)), timeout=1.0).close()
        return connect(KafkaSettings.local(address, connect_timeout_s=2.0)).brokers >= brokers
    except (OSError, BrokerUnavailable):
        return False
