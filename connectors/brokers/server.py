"""A real Apache Kafka on this machine, in KRaft mode, for tests, benchmarks and chaos runs.

`KafkaServer` starts one or several brokers (each is also a controller), kills and restarts single
brokers, and stops them all. Every broker is a Java process that ends with the process that started it
(see `child_process`). Data stays in the given directory, so a later server can use it.

With three or more brokers everything has three copies, so any broker may be killed. Rebalances start
immediately and buffers are small: the settings suit short runs on one machine, not production.
"""

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from connectors.brokers.distribution import KafkaUnavailable
from connectors.brokers.storage import Broker, format_storage
from connectors.kafka.client import BrokerUnavailable, connect
from connectors.process.child_process import Startable
from connectors.process.local_ports import HOST, find_free_port
from schemas.settings.connection import KafkaSettings

_START_TIMEOUT_S = 120.0

_FIXED_PROPERTIES = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    # A misspelt name must not create a topic.
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    # Kafka waits 3 s for further consumers, which is not necessary here.
    "group.initial.rebalance.delay.ms": "0",
    # Time to notice a killed broker; Kafka's default is 9 s.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Otherwise two empty records per second, a third of the cost of an idle broker.
    "metadata.max.idle.interval.ms": "0",
    # Few threads and small buffers, because the tested programs run on the same machine.
    "num.network.threads": "2",
    "num.io.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.cleaner.backoff.ms": "1000",
}


@dataclass
class KafkaServer(Startable):
    """Real brokers with data in `directory`."""

    directory: Path
    brokers: int = 1
    port: int | None = None
    """Port of the first broker, followed by the others; None: free ports."""
    listeners: Mapping[str, str] = field(default_factory=dict)
    """Additional listeners: name to protocol, for example {"SECURE": "SASL_SSL"}."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Additional lines of server.properties; they take precedence."""
    scram_users: Mapping[str, str] = field(default_factory=dict)
    """Initial users of SCRAM-SHA-256 and SCRAM-SHA-512, with their passwords."""
    members: list[Broker] = field(default_factory=list, init=False)

    def start(self) -> Self:
        """Start all brokers and wait until they answer.

        Raises KafkaUnavailable if Java, Maven or the jars are missing, a given port is taken, or a broker
        does not start.
        """
        if self.port is not None:
            for port in range(self.port, self.port + self.brokers):
                _check_free(port)
        self.members = self._choose_ports()
        try:
            for member in self.members:
                self._prepare(member)
            for member in self.members:
                member.launch()
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all brokers; kill a broker that does not end within 30 s."""
        for member in self.members:
            member.ask_to_stop()
        for member in self.members:
            member.wait_for_end()

    def start_broker(self, index: int = 0) -> None:
        """Restart a killed broker with its port and data, and wait until it answers."""
        if self.members[index].pid is None:
            self.members[index].launch()
        self._wait_until_ready()

    def address(self, listener: str = "PLAINTEXT") -> str:
        """Return the addresses of a listener on all brokers, as `host:port,host:port`."""
        return ",".join(f"{HOST}:{member.ports[listener]}" for member in self.members)

    @property
    def bootstrap_servers(self) -> str:
        return self.address()

    @property
    def settings(self) -> KafkaSettings:
        """Client settings for the plain listeners."""
        return KafkaSettings.local(self.bootstrap_servers)

    def _choose_ports(self) -> list[Broker]:
        members: list[Broker] = []
        listeners = ("PLAINTEXT", "CONTROLLER", *self.listeners)
        for number in range(1, self.brokers + 1):
            ports = {name: find_free_port() for name in listeners}
            if self.port is not None:
                ports["PLAINTEXT"] = self.port + number - 1
            directory = self.directory.absolute() / f"broker-{number}"
            members.append(Broker(directory, number, ports))
        return members

    def _prepare(self, member: Broker) -> None:
        member.directory.mkdir(parents=True, exist_ok=True)
        values = self._server_properties(member) | dict(self.properties)
        # Values such as certificates have line breaks, which this format requires to be escaped.
        lines = (f"{name}={value}".replace("\n", "\\n") for name, value in values.items())
        member.configuration.touch(mode=0o600)
        member.configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
        format_storage(member, self.scram_users)

    def _server_properties(self, member: Broker) -> dict[str, str]:
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **self.listeners}
        addresses = {name: f"{name}://{HOST}:{port}" for name, port in member.ports.items()}
        voters = (f"{m.number}@{HOST}:{m.ports['CONTROLLER']}" for m in self.members)
        # With three brokers, groups and topics survive the loss of any broker.
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
        launched = [member for member in self.members if member.launched]
        for member in launched:
            # Ask every broker, because the other brokers list a killed broker for some seconds.
            while not _answers(f"{HOST}:{member.ports['PLAINTEXT']}", brokers=len(launched)):
                if member.pid is None:
                    raise KafkaUnavailable(
                        f"broker {member.number} ended during its start; {member.describe_log()}"
                    )
                if time.monotonic() > deadline:
                    raise KafkaUnavailable(
                        f"broker {member.number} did not answer at {HOST}:{member.ports['PLAINTEXT']} "
                        f"within {_START_TIMEOUT_S:.0f} s; {member.describe_log()}"
                    )
                time.sleep(0.05)


def _check_free(port: int) -> None:
    """Raise KafkaUnavailable if the port is in use, so that no other broker is mistaken for this one."""
    with socket.socket() as probe:
        # As in Java: connections in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise KafkaUnavailable(
                f"cannot listen on port {port} of {HOST}: {error.strerror}; expected a free port"
            ) from None


def _answers(address: str, brokers: int) -> bool:
    """Tell whether the broker at this address answers and knows that many brokers."""
    host, port = address.split(":")
    try:
        # The client logs refused connections and backs off, so first test whether the port is open.
        socket.create_connection((host, int(port)), timeout=1.0).close()
        return connect(KafkaSettings.local(address, connect_timeout_s=2.0)).brokers >= brokers
    except (OSError, BrokerUnavailable):
        return False
