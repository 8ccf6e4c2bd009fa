"""One broker's Java process."""

from dataclasses import dataclass
from pathlib import Path

from connectors.brokers.distribution import LOG_CONFIGURATION, fetch_jars
from connectors.process.child_process import ChildProcess

#: Little memory and few threads. Code is compiled once and fast: what compiling it a second time
#: takes, a third of a short run's CPU, pays for itself after some minutes only.
_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def java(*options: str) -> list[str]:
    """Beginning of a command that runs one of Kafka's classes."""
    log = f"-Dlog4j2.configurationFile={LOG_CONFIGURATION}"
    return ["java", *_JAVA_OPTIONS, *options, log, "-cp", f"{fetch_jars()}/*"]


def complaint(output: str) -> str:
    """The lines of a Java program's output that name errors; if there are none, the last ones."""
    lines = [line for line in output.strip().splitlines() if not line.startswith("\tat ")]
    errors = [line for line in lines if "ERROR" in line or "Exception" in line]
    return "\n".join((errors or lines)[-10:])


@dataclass(slots=True)
class Broker(ChildProcess):
    """One broker: its ports, its directory and, while it runs, its process."""

    number: int
    ports: dict[str, int]
    """Port of each listener."""
    java_options: tuple[str, ...] = ()
    """Further options of Java."""

    @property
    def configuration(self) -> Path:
        """File with its settings."""
        return self.directory / "server.properties"

    def command(self) -> list[str]:
        """Java, with its settings."""
        return [
            *java("-Xms256m", "-Xmx512m", *self.java_options),
            "kafka.Kafka",
            str(self.configuration),
        ]
