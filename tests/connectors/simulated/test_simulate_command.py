"""`loadstream simulate` beside a real worker."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.conftest import RunningBroker
from tests.streams.worker import Worker, client

_COMMAND = [sys.executable, "-c", "from connectors.cli import main; main()", "simulate"]


async def test_pods_of_the_simulated_cluster_are_placed_and_bound_until_it_is_ended(
    embedded: RunningBroker, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": embedded.bootstrap_servers,
    }
    options = ["--nodes", "20", "--churn", "100", "--period", "2", "--cluster", "c"]
    topics = ("placement-decisions", "command-outcomes", "dead-letters")
    with Worker(embedded.settings, tmp_path) as worker:
        async with client(embedded.settings, worker, *topics) as kafka:
            simulated = subprocess.Popen(  # noqa: S603 - our own command
                [*_COMMAND, *options], env=environment, stderr=subprocess.PIPE, text=True
            )
            try:
                await kafka.until(lambda: len(kafka.of("command-outcomes")) >= 3)
                simulated.send_signal(signal.SIGTERM)
                _, said = simulated.communicate(timeout=30)
            finally:
                simulated.kill()
            assert (simulated.returncode, said) == (130, "")
            assert {outcome.result for outcome in kafka.of("command-outcomes")} == {"done"}
            assert kafka.of("dead-letters") == []


def test_without_a_broker_it_says_so(cache: Path) -> None:
    done = subprocess.run(_COMMAND, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert done.returncode == 1
    assert "no broker is known" in done.stderr
