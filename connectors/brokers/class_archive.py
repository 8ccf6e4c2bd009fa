"""A class archive that makes Kafka start faster (Java's application class data sharing).

A JVM that starts Kafka loads and verifies about nine thousand classes, half of the cost of a start.
With an archive it maps them into memory instead. The first start creates the archive in the cache
directory: a broker is started, used briefly and stopped. Brokers that start at the same time do not
use it.

An archive fits only one Java version and one set of jars, so its name contains a digest of both. The
JVM ignores an archive that does not fit. An empty file means that creating the archive failed, because
this Java does not support archives or the machine was too busy; the next attempt is a day later.
Brokers start without an archive, too.
"""

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import KafkaException

from connectors.brokers.distribution import fetch_jars
from connectors.kafka.client import BrokerUnavailable

#: Suppresses messages about archives that do not fit.
SILENT = "-Xlog:cds*=off"

#: Time until a failed archive is tried again.
_RETRY_AFTER_S = 86_400


def prepare_class_archive(train: Callable[[str], None]) -> tuple[str, ...]:
    """Return the options of Java that use the archive; empty without an archive.

    Args:
        train: runs a broker with the given option of Java until its process ends. If it raises an
            exception of a Kafka client, no archive is created.

    Raises:
        KafkaUnavailable: Java or the jars are missing.
    """
    jars = fetch_jars()
    archive = jars.with_name(f"{jars.name}-{_digest_identity(jars)}.jsa")
    if _must_create(archive):
        try:
            _create(archive, train)
        except OSError:  # a read-only cache, a full disk, or a file system without locks
            return ()
    try:
        return (f"-XX:SharedArchiveFile={archive}", SILENT) if archive.stat().st_size else ()
    except OSError:
        return ()


def _create(archive: Path, train: Callable[[str], None]) -> None:
    """Create the archive unless another process does; on failure, create an empty file."""
    with archive.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not _must_create(archive):
            return
        unfinished = archive.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        try:
            train(f"-XX:ArchiveClassesAtExit={unfinished}")
        except (BrokerUnavailable, KafkaException):
            unfinished.unlink(missing_ok=True)
        unfinished.touch()
        # The last step, so that a file of this name is always complete.
        unfinished.rename(archive)


def _must_create(archive: Path) -> bool:
    """Tell whether the archive is missing, or failed long ago."""
    try:
        status = archive.stat()
    except FileNotFoundError:
        return True
    return not status.st_size and time.time() - status.st_mtime > _RETRY_AFTER_S


def _digest_identity(jars: Path) -> str:
    """Return a digest of Java and of each jar's path, size and age: the JVM requires the same ones."""
    java = Path(os.path.realpath(shutil.which("java") or "java"))
    release = java.parents[1] / "release"
    identity = [str(java), release.read_text(encoding="utf-8") if release.is_file() else ""]
    for jar in sorted(jars.iterdir()):
        status = jar.stat()
        identity.append(f"{jar} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:12]
