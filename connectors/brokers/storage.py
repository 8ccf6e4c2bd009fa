"""The formatted storage of a broker: a tool of Kafka's writes it, and its result is kept.

Two files: `meta.properties` says whose storage it is, `bootstrap.checkpoint` has the first records
of a cluster's metadata, the versions of features. The second depends on nothing but the jars, so
the tool, a JVM that takes more than a second of CPU, runs once. Users that are known from the start
stand in it too: with such it is not kept.
"""

import base64
import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from connectors.brokers.distribution import KafkaUnavailable, fetch_jars
from connectors.brokers.process import Broker, complaint, java

#: Any 22 characters of base64 are a cluster id; a constant one lets a directory be started again.
CLUSTER_ID = "loadstream-local-kafka"

_META = "meta.properties"
_BOOTSTRAP = "bootstrap.checkpoint"


def format_storage(member: Broker, scram_users: Mapping[str, str]) -> None:
    """Format a broker's directory `data`, unless it is; its configuration is written.

    Args:
        member: the broker.
        scram_users: users of SCRAM-SHA-256 and SCRAM-SHA-512 with their passwords.

    Raises:
        KafkaUnavailable: Java or the jars are missing, or Kafka refuses the configuration.
    """
    data = member.directory / "data"
    if (data / _META).exists():
        return
    kept = _kept()
    if not scram_users and kept.is_file():
        _write(member, data, kept)
        return
    _run_tool(member, scram_users)
    if not scram_users:
        _keep(data / _BOOTSTRAP, kept)


def _kept() -> Path:
    jars = fetch_jars()
    return jars.with_name(f"{jars.name}.{_BOOTSTRAP}")


def _keep(made: Path, kept: Path) -> None:
    """Put it into the cache; a cache that may only be read is none."""
    unfinished = kept.with_name(f"{kept.name}.{os.getpid()}")
    try:
        shutil.copyfile(made, unfinished)
        unfinished.rename(kept)
    except OSError:
        # A read-only file system refuses to remove also what is not there.
        with suppress(OSError):
            unfinished.unlink()


def _write(member: Broker, data: Path, bootstrap: Path) -> None:
    data.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(bootstrap, data / _BOOTSTRAP)
    # An id begins with no hyphen: tools would take it for an option.
    own = "L" + base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()[1:22]
    # The last step: a directory with this file counts as formatted.
    (data / _META).write_text(
        f"version=1\nnode.id={member.number}\ncluster.id={CLUSTER_ID}\ndirectory.id={own}\n",
        encoding="utf-8",
    )


def _run_tool(member: Broker, scram_users: Mapping[str, str]) -> None:
    command = [
        *java(),
        *("kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID),
        *("--config", str(member.configuration)),
    ]
    for name, password in scram_users.items():
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            command += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
    done = subprocess.run(  # noqa: S603 - made of our own paths
        command, cwd=member.directory, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise KafkaUnavailable(
            f"the storage of broker {member.number} was not formatted:\n"
            f"{complaint(done.stdout + done.stderr)}"
        )
