"""Failed handshakes by cause, with real certificates and listeners."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.client import BrokerUnavailable, connect
from schemas.settings.connection import KafkaSettings
from schemas.settings.environment import SettingsError

_CA_FILE = "LOADSTREAM_KAFKA_CA_FILE"
_WRONG_CA = f"Check {_CA_FILE}: it must contain"
_ISSUER = """
[ca]
default_ca = own
[own]
database = index.txt
serial = serial
new_certs_dir = .
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
"""


def _openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)  # noqa: S603, S607


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two authorities, and valid and invalid certificates of the first for 127.0.0.1."""
    directory = tmp_path_factory.mktemp("certificates")
    (directory / "issuer.cnf").write_text(_ISSUER)
    (directory / "index.txt").touch()
    (directory / "serial").write_text("01\n")
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
    for name in ("ca", "other"):
        _openssl(
            directory, "req", "-x509", *new, "-days", "2", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.pem",
        )  # fmt: skip
    for name, held, begins, ends in (
        ("good", "IP:127.0.0.1", "20200101000000Z", "20490101000000Z"),
        ("expired", "IP:127.0.0.1", "20200101000000Z", "20210101000000Z"),
        ("early", "IP:127.0.0.1", "20480101000000Z", "20490101000000Z"),
        ("misnamed", "DNS:elsewhere.example", "20200101000000Z", "20490101000000Z"),
    ):
        _openssl(
            directory, "req", *new, "-subj", f"/CN={name}", "-addext", f"subjectAltName={held}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr",
        )  # fmt: skip
        _openssl(
            directory, "ca", "-batch", "-notext", "-config", "issuer.cnf", "-cert", "ca.pem",
            "-keyfile", "ca.key", "-in", f"{name}.csr", "-out", f"{name}.pem",
            "-startdate", begins, "-enddate", ends,
        )  # fmt: skip
    _openssl(
        directory, "pkey", "-in", "good.key", "-aes256", "-passout", "pass:right", "-out", "locked.key"
    )  # fmt: skip
    return directory


@contextmanager
def _listen(context: ssl.SSLContext) -> Iterator[str]:
    """Run a listener that completes handshakes and then sends nothing; returns its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with (
                    suppress(OSError),
                    context.wrap_socket(connection, server_side=True) as wrapped,
                ):
                    wrapped.settimeout(1)
                    wrapped.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def _context(certificates: Path, name: str, client_ca: str | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates / f"{client_ca}.pem")
    return context


def _explanation(certificates: Path, address: str, **files: str) -> str:
    """Return the error of a command that cannot connect."""
    values: dict[str, Any] = {name: certificates / file for name, file in files.items()}
    settings = KafkaSettings(
        bootstrap_servers=address, security_protocol="SSL", connect_timeout_s=5, **values
    )
    with pytest.raises(BrokerUnavailable) as caught:
        connect(settings)
    return str(caught.value)


@pytest.mark.parametrize(
    ("server", "ca", "cause", "remedy"),
    [
        ("expired", "ca.pem", "certificate has expired", "Renew the certificate of the broker"),
        ("early", "ca.pem", "certificate is not yet valid", "Check the clocks"),
        ("good", "other.pem", "unable to get local issuer certificate", _WRONG_CA),
        ("other", "ca.pem", "self-signed certificate", _WRONG_CA),
        ("misnamed", "ca.pem", "IP address mismatch", "LOADSTREAM_KAFKA_CHECK_HOSTNAME"),
    ],
)
def test_a_certificate_that_is_refused_gets_the_advice_of_its_cause(
    certificates: Path, server: str, ca: str, cause: str, remedy: str
) -> None:
    with _listen(_context(certificates, server)) as address:
        explanation = _explanation(certificates, address, ca_file=ca)
    assert f"the broker's certificate is refused: {cause}" in explanation
    assert remedy in explanation
    assert (_WRONG_CA in explanation) == (remedy == _WRONG_CA)


@pytest.mark.parametrize(
    ("client", "remedy"),
    [
        (None, "The broker requires a client certificate: set LOADSTREAM_KAFKA_CLIENT_CERT"),
        ("expired", "LOADSTREAM_KAFKA_CLIENT_CERTIFICATE_FILE) has expired: renew it"),
        ("other", "does not know the authority that signed the client's certificate"),
    ],
)
def test_a_client_that_the_broker_refuses_gets_the_reason(
    certificates: Path, client: str | None, remedy: str
) -> None:
    files = {"ca_file": "ca.pem"}
    if client is not None:
        files |= {
            "client_certificate_file": f"{client}.pem",
            "client_key_file": f"{client}.key",
        }
    with _listen(_context(certificates, "good", client_ca="ca")) as address:
        explanation = _explanation(certificates, address, **files)
    assert remedy in explanation
    assert _CA_FILE not in explanation


def test_two_sides_without_a_common_version_get_the_reason(certificates: Path) -> None:
    context = _context(certificates, "good")
    context.set_ciphers("ECDHE-ECDSA-AES256-CCM8:@SECLEVEL=0")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with _listen(context) as address:
        explanation = _explanation(certificates, address, ca_file="ca.pem")
    assert "no TLS version or cipher in common" in explanation


@pytest.mark.parametrize(
    ("key", "password", "words"),
    [
        ("other.key", None, "a key that belongs to the certificate"),
        ("locked.key", "wrong", "password in LOADSTREAM_KAFKA_CLIENT_KEY_PASSWORD"),
        ("locked.key", None, "password in LOADSTREAM_KAFKA_CLIENT_KEY_PASSWORD"),
        ("index.txt", None, "expected PEM"),
    ],
)
def test_an_error_names_files_that_do_not_match(
    certificates: Path, key: str, password: str | None, words: str
) -> None:
    settings = KafkaSettings(
        bootstrap_servers="127.0.0.1:1",
        security_protocol="SSL",
        client_certificate_file=certificates / "good.pem",
        client_key_file=certificates / key,
        client_key_password=password,
    )
    with pytest.raises(SettingsError, match=words):
        settings.ssl_context()
