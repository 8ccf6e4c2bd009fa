"""Kafka's classes as Java keeps them ready to use: a class archive, made once into the cache directory.

A JVM that starts Kafka reads and checks some nine thousand classes, which is half of all that the
start costs. With an archive (application class data sharing) it maps them instead. The first start
makes the archive: a broker is started once, used a little and stopped. Other brokers that start at
that time do without.

The archive fits one Java and these jars, so both are in its name; the JVM checks this again, and
does without if it does not fit. An empty file says that there is no archive: this Java makes none,
or the machine was too busy. After a day it is tried again. Every broker starts without an archive
too.
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

#: Messages about an archive that does not fit would stand before Kafka's own.
SILENT = "-Xlog:cds*=off"

#: After so long an archive of which nothing came is tried again.
_AGAIN_AFTER_S = 86_400


def archived_classes(train: Callable[[str], None]) -> tuple[str, ...]:
    """Options of Java that use the archive; none where there is none.

    Args:
        train: runs what is to be archived, with an option of Java that it is given, up to the end
            of its process. May raise what clients of a broker raise, as where the process was
            killed before its end: then none is made.

    Raises:
        KafkaUnavailable: Java or the jars are missing.
    """
    jars = fetch_jars()
    archive = jars.with_name(f"{jars.name}-{_fits(jars)}.jsa")
    if _wanted(archive):
        try:
            _make(archive, train)
        except OSError:  # a cache that may only be read, a full disk, one without locks
            return ()
    try:
        return (f"-XX:SharedArchiveFile={archive}", SILENT) if archive.stat().st_size else ()
    except OSError:
        return ()


def _make(archive: Path, train: Callable[[str], None]) -> None:
    """Make it unless another process is making it; what cannot be made is an empty file."""
    with archive.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not _wanted(archive):
            return
        unfinished = archive.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        try:
            train(f"-XX:ArchiveClassesAtExit={unfinished}")
        except (BrokerUnavailable, KafkaException):
            unfinished.unlink(missing_ok=True)
        unfinished.touch()
        # The last step, so a file of that name is always complete.
        unfinished.rename(archive)


def _wanted(archive: Path) -> bool:
    """It is not there, or was tried long ago and is empty."""
    try:
        found = archive.stat()
    except FileNotFoundError:
        return True
    return not found.st_size and time.time() - found.st_mtime > _AGAIN_AFTER_S


def _fits(jars: Path) -> str:
    """Digest of what the JVM wants to be the same: itself, and each jar's place, size and age."""
    java = Path(os.path.realpath(shutil.which("java") or "java"))
    release = java.parents[1] / "release"
    identity = [str(java), release.read_text(encoding="utf-8") if release.is_file() else ""]
    for jar in sorted(jars.iterdir()):
        seen = jar.stat()
        identity.append(f"{jar} {seen.st_size} {seen.st_mtime_ns}")
    return hashlib.sha256("\n".join(identity).encode()).hexdigest()[:12]
