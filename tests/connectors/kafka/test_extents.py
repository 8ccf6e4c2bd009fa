"""Extents of partitions."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.kafka import diagnosis
from connectors.kafka.client import BrokerUnavailable, connect
from connectors.kafka.extents import read_extents, read_topic_extents
from schemas.settings.connection import KafkaSettings


@pytest.mark.broker
def test_a_suspended_broker_is_not_reported_as_empty(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise pausing a cluster would write the default policy, since `policies` would look empty."""
    monkeypatch.setattr(diagnosis, "_TIMEOUT_S", 1.0)
    server = subprocess.Popen(
        [sys.executable, "-m", "loadstream", "broker"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        settings = KafkaSettings.local(server.stdout.readline().strip())
        connection = connect(settings)
        assert len(read_topic_extents(connection, "clock")) == 4
        os.kill(server.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, server.pid, os.WSTOPPED)  # its threads may still answer
        hasty = replace(connection, settings=settings.model_copy(update={"connect_timeout_s": 0.5}))
        with pytest.raises(BrokerUnavailable, match="no usable broker at"):
            read_extents(hasty, {"clock": 4})
    finally:
        server.kill()
        server.communicate()
