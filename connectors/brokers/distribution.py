"""Apache Kafka's own jars, fetched once from Maven into the cache directory.

`distribution/pom.xml` names the versions. The jars (44 MB) lie in a directory that is named after
the hash of that file, so a changed version is fetched anew and an unchanged one never again.
Fetching is safe against other processes that fetch at the same time and against being killed
half-way.
"""

import hashlib
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from connectors.kafka.client import BrokerUnavailable
from connectors.process.child_process import made_once
from schemas.settings.announcement import cache_directory

DISTRIBUTION = Path(__file__).parent / "distribution"
LOG_CONFIGURATION = DISTRIBUTION / "log4j2.properties"

_FETCH_TIMEOUT_S = 600


class KafkaUnavailable(BrokerUnavailable):
    """Kafka cannot be started on this machine; the message says what is missing."""


def missing_programs() -> str:
    """What is needed and not installed, as a sentence; empty if nothing is missing."""
    packages = {"java": "a Java runtime, 17 or newer", "mvn": "Maven"}
    missing = [
        f"`{name}` ({what})" for name, what in packages.items() if shutil.which(name) is None
    ]
    if not missing:
        return ""
    return f"a real Kafka needs {' and '.join(missing)} on the PATH, which is not there"


def fetch_jars() -> Path:
    """Directory with all jars of the broker; fetched by Maven if it does not exist yet.

    Raises KafkaUnavailable if Java or Maven is missing or the download fails.
    """
    pom = DISTRIBUTION / "pom.xml"
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    directory = cache_directory() / f"kafka-{digest}"
    if directory.is_dir():
        # Java alone is enough once the jars are there.
        if shutil.which("java") is None:
            raise KafkaUnavailable(missing_programs())
    elif reason := missing_programs():
        raise KafkaUnavailable(reason)
    return made_once(directory, partial(_fetch, pom))


def _fetch(pom: Path, directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="kafka-fetch-") as scratch:
        jars = Path(scratch) / "jars"
        command = [
            "mvn", "--batch-mode", "--quiet", f"--file={pom}", "dependency:copy-dependencies",
            f"-DoutputDirectory={jars}", "-DincludeScope=runtime",
        ]  # fmt: skip
        try:
            done = subprocess.run(  # noqa: S603 - the command is made of our own paths
                command, cwd=scratch, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise KafkaUnavailable(
                f"Maven did not fetch Kafka's jars within {_FETCH_TIMEOUT_S} s; "
                "is a Maven repository reachable (settings in ~/.m2/settings.xml)?"
            ) from None
        if done.returncode != 0:
            output = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
            raise KafkaUnavailable(f"Maven could not fetch Kafka's jars:\n{output}")
        # The last step, so a directory of that name is always complete.
        jars.rename(directory)
