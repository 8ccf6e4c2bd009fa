"""Apache Kafka's jars, downloaded once from Maven into the cache directory.

`distribution/pom.xml` has the versions. The directory of the jars (44 MB) is named after the hash of
that file, so only a changed version is downloaded again. Concurrent and interrupted downloads are safe.
"""

import hashlib
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from connectors.kafka.client import BrokerUnavailable
from connectors.process.child_process import create_once
from schemas.settings.announcement import cache_directory

DISTRIBUTION = Path(__file__).parent / "distribution"
LOG_CONFIGURATION = DISTRIBUTION / "log4j2.properties"

_FETCH_TIMEOUT_S = 600


class KafkaUnavailable(BrokerUnavailable):
    """Kafka cannot start on this machine; the message says why."""


def describe_missing_programs() -> str:
    """Return a sentence that names missing programs; empty if all exist."""
    packages = {"java": "a Java runtime, 17 or newer", "mvn": "Maven"}
    missing = [
        f"`{name}` ({package})" for name, package in packages.items() if shutil.which(name) is None
    ]
    if not missing:
        return ""
    return f"a real Kafka needs {' and '.join(missing)} on the PATH"


def fetch_jars() -> Path:
    """Return the directory with all jars; Maven downloads them if necessary.

    Raises KafkaUnavailable if Java or Maven is missing, or the download fails.
    """
    pom = DISTRIBUTION / "pom.xml"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    directory = cache_directory() / f"kafka-{digest}"
    if directory.is_dir():
        # Once the jars exist, Maven is not needed.
        if shutil.which("java") is None:
            raise KafkaUnavailable(describe_missing_programs())
    elif reason := describe_missing_programs():
        raise KafkaUnavailable(reason)
    return create_once(directory, partial(_fetch, pom))


def _fetch(pom: Path, directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="kafka-fetch-") as scratch:
        jars = Path(scratch) / "jars"
        command = [
            "mvn", "--batch-mode", "--quiet", f"--file={pom}", "dependency:copy-dependencies",
            f"-DoutputDirectory={jars}", "-DincludeScope=runtime",
        ]  # fmt: skip
        try:
            completed = subprocess.run(  # noqa: S603 - built from our own paths
                command, cwd=scratch, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise KafkaUnavailable(
                f"Maven did not fetch Kafka's jars within {_FETCH_TIMEOUT_S} s; "
                "is a Maven repository reachable (settings in ~/.m2/settings.xml)?"
            ) from None
        if completed.returncode != 0:
            output = "\n".join((completed.stdout + completed.stderr).strip().splitlines()[-15:])
            raise KafkaUnavailable(f"Maven could not fetch Kafka's jars:\n{output}")
        # The last step, so that a directory of this name is always complete.
        jars.rename(directory)
