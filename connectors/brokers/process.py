"""The Java process of one broker."""

from dataclasses import dataclass
from pathlib import Path

from connectors.brokers.distribution import LOG_CONFIGURATION, fetch_jars
from connectors.process.child_process import ChildProcess

#: Little memory, few threads, and only the fast compiler: the optimizing compiler takes a third of the
#: CPU of a short run and pays off only after some minutes.
_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def java_command(*options: str) -> list[str]:
    """Return the beginning of a command that runs one of Kafka's classes."""
    log = f"-Dlog4j2.configurationFile={LOG_CONFIGURATION}"
    return ["java", *_JAVA_OPTIONS, *options, log, "-cp", f"{fetch_jars()}/*"]


def extract_errors(output: str) -> str:
    """Return the lines of a Java program's output that mention errors; without such lines, the last
    ones."""
    lines = [line for line in output.strip().splitlines() if not line.startswith("\tat ")]
    errors = [line for line in lines if "ERROR" in line or "Exception" in line]
    return "\n".join((errors or lines)[-10:])


@dataclass(slots=True)
class Broker(ChildProcess):
    """One broker: ports, directory and, while it runs, process."""

    number: int
    ports: dict[str, int]
    """Port by listener."""
    java_options: tuple[str, ...] = ()
    """Additional options of Java."""

    @property
    def configuration(self) -> Path:
        return self.directory / "server.properties"

    def command(self) -> list[str]:
        return [
            *java_command("-Xms256m", "-Xmx512m", *self.java_options),
            "kafka.Kafka",
            str(self.configuration),
        ]
