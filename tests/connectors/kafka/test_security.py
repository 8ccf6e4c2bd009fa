"""TLS and SASL settings reach every client, against a real Kafka that requires them."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from pydantic import SecretStr
from typer.testing import CliRunner

from connectors.kafka.admin import find_topics
from connectors.kafka.client import BrokerUnavailable, connect
from connectors.process import wall_clock
from loadstream.commands import app
from schemas.settings.connection import KafkaSettings
from tests.connectors.kafka.conftest import KEY_PASSWORD, PASSWORD, PROFILES, USER, Secured

pytestmark = pytest.mark.kafka


async def _send(settings: KafkaSettings, topic: str, value: bytes) -> int:
    """Write one record to partition 0 and return its offset."""
    async with AIOKafkaProducer(**settings.aiokafka_options()) as producer:
        return int((await producer.send_and_wait(topic, value, partition=0)).offset)


async def _read(settings: KafkaSettings, topic: str, offset: int) -> bytes:
    async with AIOKafkaConsumer(**settings.aiokafka_options()) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        return bytes((await consumer.getone()).value)


@pytest.mark.parametrize("profile", PROFILES)
async def test_aiokafka_writes_and_reads_through_each_listener(
    profile: str, secured: Secured
) -> None:
    settings = secured(profile)
    offset = await _send(settings, "node-usage", profile.encode())
    assert await _read(settings, "node-usage", offset) == profile.encode()


@pytest.mark.parametrize("profile", PROFILES)
def test_librdkafka_connects_through_each_listener(profile: str, secured: Secured) -> None:
    connection = connect(secured(profile))
    assert find_topics(connection, ["node-usage"])["node-usage"].config is not None


_FAUST_APP = """
import sys
import faust
from pydantic import TypeAdapter
from schemas.settings.connection import KafkaSettings
from streams.worker.consume.transport import broker_credentials, broker_urls

settings = KafkaSettings.from_environment()
app = faust.App(
    sys.argv[1], broker=broker_urls(settings), broker_credentials=broker_credentials(settings),
    web_enabled=False, topic_disable_leader=True, datadir=sys.argv[2],
)

@app.agent(app.topic("clock", value_serializer="raw"))
async def read(stream):
    async for value in stream:
        print("read", value.decode(), flush=True)

faust.Worker(app, loglevel="error", redirect_stdouts=False).execute_from_commandline()
"""


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_faust_app_reads_a_record_through_each_listener(
    profile: str, secured: Secured, tmp_path: Path
) -> None:
    settings = secured(profile)
    text = f"hello {profile}"
    await _send(settings, "clock", text.encode())
    script = tmp_path / "app.py"
    script.write_text(_FAUST_APP)
    worker = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, str(script), f"test-{profile}", str(tmp_path / "data")],
        env=_environment(settings), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert worker.stdout is not None
    lines = []
    try:
        for line in worker.stdout:
            lines.append(line)
            if line == f"read {text}\n":
                break
    finally:
        worker.kill()
        worker.communicate()
    assert lines[-1:] == [f"read {text}\n"], "".join(lines)
    assert PASSWORD not in "".join(lines)


def _environment(settings: KafkaSettings) -> dict[str, str]:
    """Return the settings as environment variables of a worker."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    for name in settings.model_fields_set:
        value = getattr(settings, name)
        text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        environment[f"LOADSTREAM_KAFKA_{name.upper()}"] = text
    return environment


#: A fault of each kind: profile, wrong settings, reported cause and reported setting.
_FAULTS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "wrong CA": (
        "scram-512", {"ca_file": "other-ca.pem"}, "the broker's certificate is refused: unable to get",
        "LOADSTREAM_KAFKA_CA_FILE",
    ),
    "expired certificate": (
        "expired", {}, "the broker's certificate is refused: certificate has expired", "Renew the",
    ),
    "wrong host": (
        "misnamed", {"check_hostname": True}, "the broker's certificate is refused: IP address mismatch",
        "LOADSTREAM_KAFKA_CHECK_HOSTNAME",
    ),
    "wrong password": (
        "scram-512", {"sasl_password": "guess-7f3a"}, "uthentication failed",
        "LOADSTREAM_KAFKA_SASL_USERNAME, its password",
    ),
    "wrong name": (
        "plain", {"sasl_username": "mallory"}, "uthentication failed", "LOADSTREAM_KAFKA_SASL_USERNAME",
    ),
    "wrong mechanism": (
        "unencrypted", {"sasl_mechanism": "PLAIN"}, "SCRAM-SHA-512", "LOADSTREAM_KAFKA_SASL_MECHANISM",
    ),
    "plaintext against TLS": (
        "plain",
        {
            "security_protocol": "PLAINTEXT", "ca_file": None, "sasl_username": "",
            "sasl_password": None, "sasl_mechanism": "SCRAM-SHA-512",
        },
        "uses TLS", "LOADSTREAM_KAFKA_SECURITY_PROTOCOL",
    ),
    "TLS against plaintext": (
        "unencrypted", {"security_protocol": "SASL_SSL", "ca_file": "ca.pem"}, "the TLS handshake",
        "the listener does not seem to use TLS",
    ),
    "no client certificate": (
        "mutual",
        {"client_certificate_file": None, "client_key_file": None, "client_key_password": None},
        "", "LOADSTREAM_KAFKA_CLIENT_CERTIFICATE_FILE",
    ),
}  # fmt: skip
#: Longest time until a fault is reported, with the default `connect_timeout_s`.
_NAMED_WITHIN_S = 12.0


@pytest.mark.parametrize("fault", _FAULTS)
def test_each_fault_of_encryption_and_login_is_reported_in_time_without_secrets(
    fault: str, secured: Secured
) -> None:
    profile, overrides, cause, advice = _FAULTS[fault]
    settings = secured(profile, **overrides)
    began_s = time.monotonic()
    with pytest.raises(BrokerUnavailable) as caught:
        connect(settings)
    took_s = time.monotonic() - began_s
    text = str(caught.value)
    sentence, *advices = text.splitlines()
    assert cause in sentence
    assert settings.bootstrap_servers in sentence
    assert advice in " ".join(advices)
    for secret in (PASSWORD, KEY_PASSWORD, "guess-7f3a"):
        assert secret not in text
    assert took_s < _NAMED_WITHIN_S


def test_a_password_file_is_read_again_for_each_connection(
    secured: Secured, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("outdated\n")
    settings = secured("scram-512", sasl_password=None, sasl_password_file=file, sasl_username=USER)
    with pytest.raises(BrokerUnavailable):
        connect(settings)
    file.write_text(f"{PASSWORD}\n")
    assert connect(settings).brokers == 1


@pytest.mark.parametrize("profile", ["plain", "mutual"])
def test_a_worker_at_the_lowest_log_level_logs_no_password(
    profile: str, secured: Secured, tmp_path: Path
) -> None:
    environment = _environment(secured(profile)) | {
        "LOADSTREAM_LOG_LEVEL": "debug",
        "LOADSTREAM_WORKER_DATA_DIR": str(tmp_path / "data"),
    }
    command = [sys.executable, "-m", "loadstream", "worker"]
    lines = []
    worker = subprocess.Popen(  # noqa: S603 - our own command
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert worker.stdout is not None
    try:
        for line in worker.stdout:
            lines.append(line)
            if "Worker ready" in line:
                break
    finally:
        worker.kill()
        worker.communicate()
    log = "".join(lines)
    assert "Worker ready" in log, log
    assert '"level": "debug"' in log
    for secret in (PASSWORD, repr(PASSWORD)[1:-1], json.dumps(PASSWORD)[1:-1], KEY_PASSWORD):
        assert secret not in log


def test_doctor_reports_a_wrong_authority_and_a_certificate_that_expires_soon(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def examine(settings: KafkaSettings) -> str:
        for name, value in _environment(settings).items():
            monkeypatch.setenv(name, value)
        return CliRunner().invoke(app, ["doctor"]).stdout

    report = examine(secured("scram-512", ca_file="other-ca.pem"))
    assert report.startswith("error    brokers: no usable broker")
    assert "LOADSTREAM_KAFKA_CA_FILE" in report
    assert "warning  certificates: the certificate of 127.0.0.1:" in examine(secured("scram-512"))
    now_ms = wall_clock.now_ms()
    monkeypatch.setattr(wall_clock, "now_ms", lambda: now_ms - 20 * 86_400_000)
    assert "ok       certificates: the certificate of 127.0.0.1:" in examine(secured("scram-512"))
