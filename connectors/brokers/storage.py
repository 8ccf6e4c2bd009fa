"""The Java process of one broker, and its formatted storage."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connectors.brokers.distribution import LOG_CONFIGURATION, KafkaUnavailable, fetch_jars
from connectors.process.child_process import ChildProcess

#: Little memory, few threads, and only the fast compiler: the optimizing compiler takes a third of the
#: CPU of a short run and pays off only after some minutes.
_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def java_command(*options: str) -> list[str]:
    """Return the beginning of a command that runs one of Kafka's classes."""
    log = f"-Dlog4j2.configurationFile={LOG_CONFIGURATION}"
    return ["java", *_JAVA_OPTIONS, *options, log, "-cp", f"{fetch_jars()}/*"]


def extract_errors(output: str) -> str:
    """Return the last ten lines with errors in a Java program's output, or else its last ten lines."""
    lines = [line for line in output.strip().splitlines() if not line.startswith("\tat ")]
    errors = [line for line in lines if "ERROR" in line or "Exception" in line]
    return "\n".join((errors or lines)[-10:])


@dataclass(slots=True)
class Broker(ChildProcess):
    """One broker: ports, directory and, while it runs, process."""

    number: int
    ports: dict[str, int]
    """Port by listener."""

    @property
    def configuration(self) -> Path:
        return self.directory / "server.properties"

    def command(self) -> list[str]:
        return [*java_command("-Xms256m", "-Xmx512m"), "kafka.Kafka", str(self.configuration)]

    def describe_log(self) -> str:
        """Return the errors in the log, for an error message."""
        return f"its log {self.log} says:\n{extract_errors(self.output())}"


#: Any 22 characters of base64; constant, so that a directory can be used again.
CLUSTER_ID = "loadstream-local-kafka"


def format_storage(member: Broker, scram_users: Mapping[str, str]) -> None:
    """Format the `data` directory of a broker, unless it is formatted. Requires the configuration file.

    Args:
        member: the broker.
        scram_users: initial users of SCRAM-SHA-256 and SCRAM-SHA-512, with their passwords.

    Raises:
        KafkaUnavailable: Java or the jars are missing, or Kafka refuses the configuration.
    """
    command = [
        *java_command(),
        *("kafka.tools.StorageTool", "format", "--ignore-formatted"),
        *("--cluster-id", CLUSTER_ID, "--config", str(member.configuration)),
    ]
    for name, password in scram_users.items():
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            command += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
    completed = subprocess.run(  # noqa: S603 - built from our own paths
        command, cwd=member.directory, capture_output=True, text=True, check=False
    )
    if completed.returncode != 0:
        raise KafkaUnavailable(
            f"cannot format the storage of broker {member.number}:\n"
            f"{extract_errors(completed.stdout + completed.stderr)}"
        )
