"""Settings of the connection to Kafka, for all clients.

Values come from environment variables `LOADSTREAM_KAFKA_<FIELD>`. `aiokafka_options` and
`librdkafka_options` translate them for the two client libraries, `streams.worker.consume.transport` for Faust,
so TLS and SASL mean the same everywhere. Secrets do not appear in `repr`, logs and error messages.
The two option dictionaries contain them in clear, so do not log them.
"""

import os
import re
import ssl
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.settings.announcement import announcement_file, find_announced
from schemas.settings.environment import SettingsError, read_settings
from schemas.topics.catalog import PARTITIONS_DEFAULT

ENV_PREFIX = "LOADSTREAM_KAFKA_"

#: Name of the Faust application: consumer group and prefix of changelog topics.
APP_ID = "loadstream"


def name_duty_group(duty: str, cluster: str) -> str:
    """Return the consumer group of a duty, such as bind, of one cluster."""
    return f"loadstream-{duty}-{cluster}"


#: Prefix of the cluster ids of librdkafka's mock clusters, such as the embedded broker.
EMBEDDED_CLUSTER_ID_PREFIX = "mockCluster"

_TLS_FILES = ("ca_file", "client_certificate_file", "client_key_file")
_SERVER = re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})$")


class NoBroker(SettingsError):
    """No address is configured, and no local broker is running."""


class KafkaSettings(BaseSettings):
    """Address, encryption and identity for a Kafka cluster."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        # Otherwise an error message would print all values, including the password.
        hide_input_in_errors=True,
    )

    bootstrap_servers: str = ""
    """Addresses as `host:port`, separated by commas. None: the local broker that `loadstream
    broker` started."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Kafka's names: SSL encrypts, SASL logs in."""
    ca_file: Path | None = None
    """PEM file with the trusted authorities. None: the authorities of the system."""
    client_certificate_file: Path | None = None
    """PEM file with the client's certificate chain, if brokers require a certificate."""
    client_key_file: Path | None = None
    """PEM file with the key of that certificate."""
    client_key_password: SecretStr | None = None
    """Password of that key. None: the key is not encrypted."""
    check_hostname: bool = True
    """A broker's certificate must carry its name. If false, any holder of a trusted certificate can
    pass for a broker; use this in tests only."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """How to log in. SCRAM does not send the password."""
    sasl_username: str = ""
    """Name for SASL."""
    sasl_password: SecretStr | None = None
    """Password to log in with, unless it is in a file."""
    sasl_password_file: Path | None = None
    """File with the password, such as a mounted Kubernetes secret; line breaks at its end are
    ignored."""
    client_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")] = APP_ID
    """Client name in the broker's logs and quotas."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] = PARTITIONS_DEFAULT
    """Partitions of every topic: the most workers that a stage can spread over. It cannot change
    once there are records, because keys would then hash to other partitions."""
    replication_factor: Annotated[int, Field(ge=1, le=15)] | None = None
    """Copies of every topic. None: the brokers' `default.replication.factor`."""
    connect_timeout_s: Annotated[float, Field(gt=0, le=300)] = 10.0
    """How long a command waits for an answer of a broker, in seconds."""

    @field_validator("bootstrap_servers")
    @classmethod
    def _check_servers(cls, value: str) -> str:
        for server in filter(None, (part.strip() for part in value.split(","))):
            match = _SERVER.match(server)
            if match is None or not 0 < int(match[2]) < 65_536:
                raise ValueError(f"found {server!r}; expected host:port, for example kafka-0:9092")
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = [
            *self._tls_problems(),
            *self._sasl_problems(),
            *(
                f"{_variable(name)}: file {path} does not exist or is not readable"
                for name, path in self._find_files(*_TLS_FILES, "sasl_password_file").items()
                if not os.access(path, os.R_OK) or not path.is_file()
            ),
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _find_files(self, *names: str) -> dict[str, Path]:
        return {name: path for name in names if (path := getattr(self, name)) is not None}

    def _tls_problems(self) -> list[str]:
        problems = []
        tls_files = self._find_files(*_TLS_FILES)
        if (tls_files or not self.check_hostname) and not self.encrypted:
            name = min(tls_files, default="check_hostname")
            problems.append(
                f"{_variable(name)} is set, but {_variable('security_protocol')} is "
                f"{self.security_protocol}, which does not encrypt; expected SSL or SASL_SSL"
            )
        if (self.client_certificate_file is None) != (self.client_key_file is None):
            problems.append(
                f"{_variable('client_certificate_file')} and {_variable('client_key_file')} "
                "must be given together; one is missing"
            )
        if self.client_key_password is not None and self.client_key_file is None:
            problems.append(
                f"{_variable('client_key_password')} is set, but {_variable('client_key_file')} is not"
            )
        return problems

    def _sasl_problems(self) -> list[str]:
        sources = (self.sasl_password is not None) + (self.sasl_password_file is not None)
        protocol = f"{_variable('security_protocol')} is {self.security_protocol}"
        if not self.logs_in:
            if sources or self.sasl_username or self._is_mechanism_set:
                return [
                    f"a SASL mechanism, name or password is set, but {protocol}, which does not log in; "
                    "expected SASL_SSL or SASL_PLAINTEXT"
                ]
            return []
        problems = []
        if not self.sasl_username:
            problems.append(f"{_variable('sasl_username')} is missing, but {protocol}")
        if sources != 1:
            problems.append(
                f"exactly one of {_variable('sasl_password')} and "
                f"{_variable('sasl_password_file')} is expected; found {sources}"
            )
        return problems

    @property
    def _is_mechanism_set(self) -> bool:
        return bool(self.sasl_mechanism != type(self).model_fields["sasl_mechanism"].default)

    @classmethod
    def from_environment(cls, **overrides: Any) -> Self:
        """Return the settings in force; raises SettingsError with all problems."""
        settings: Self = read_settings({cls: overrides})[0]
        return settings

    @classmethod
    def local(cls, bootstrap_servers: str, **overrides: Any) -> "KafkaSettings":
        """Return settings for a local broker without encryption, regardless of the environment."""
        return cls.model_construct(bootstrap_servers=bootstrap_servers, **overrides)

    @property
    def encrypted(self) -> bool:
        """Whether connections use TLS."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def logs_in(self) -> bool:
        """Whether connections use SASL."""
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def servers(self) -> tuple[str, ...]:
        """Return the addresses to connect to first; raises NoBroker if there are none."""
        addresses = self.bootstrap_servers or find_announced() or ""
        servers = tuple(filter(None, (part.strip() for part in addresses.split(","))))
        if not servers:
            raise NoBroker(
                f"no broker found: {_variable('bootstrap_servers')} is empty and no local broker "
                f"is announced in {announcement_file()}. Start one with `loadstream broker` in "
                f"another terminal, or set {_variable('bootstrap_servers')} to host:port."
            )
        return servers

    def password(self) -> str | None:
        """Return the SASL password in clear. The file is read each time, because secrets rotate.

        Raises:
            SettingsError: the file has no password.
        """
        if self.sasl_password is not None:
            return self.sasl_password.get_secret_value()
        if self.sasl_password_file is not None:
            return self._password_of(self.sasl_password_file)
        return None

    def _password_of(self, file: Path) -> str:
        name = f"{_variable('sasl_password_file')}={file}"
        try:
            password = file.read_bytes().decode().rstrip("\r\n")
        except OSError as error:
            raise SettingsError(f"{name} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:  # its message would show the bytes
            raise SettingsError(f"{name} is not UTF-8 text; expected only the password") from None
        if not password:
            raise SettingsError(f"{name} is empty; expected only the password")
        return password

    def secrets(self) -> tuple[str, ...]:
        """Return the secrets in clear, so that logs can leave them out."""
        key_password = self.client_key_password
        secrets = (self.password(), key_password and key_password.get_secret_value())
        return tuple(secret for secret in secrets if secret)

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS configuration; None without encryption.

        Raises:
            SettingsError: a certificate or key cannot be read.
        """
        if not self.encrypted:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            context.check_hostname = self.check_hostname
            if self.client_certificate_file is not None:
                key_password = self.client_key_password
                context.load_cert_chain(
                    self.client_certificate_file,
                    self.client_key_file,
                    # Never None: OpenSSL would ask for it on the terminal.
                    key_password.get_secret_value() if key_password is not None else "",
                )
        except ssl.SSLError as error:
            files = ", ".join(
                f"{_variable(name)}={path}" for name, path in self._find_files(*_TLS_FILES).items()
            )
            raise SettingsError(
                f"the TLS files cannot be used ({files or 'the system store'}): {error}; expected PEM, "
                "a key that belongs to the certificate, and the key's password in "
                f"{_variable('client_key_password')} if it is encrypted"
            ) from error
        return context

    def aiokafka_options(self) -> dict[str, Any]:
        """Return the arguments that aiokafka's producer, consumer and admin client have in common."""
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.servers()),
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
        }
        if self.encrypted:
            options["ssl_context"] = self.ssl_context()
        if self.logs_in:
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.sasl_username
            options["sasl_plain_password"] = self.password()
        return options

    def librdkafka_options(self) -> dict[str, str]:
        """Return the properties that all clients of confluent-kafka have in common."""
        options = {
            "bootstrap.servers": ",".join(self.servers()),
            "client.id": self.client_id,
            "security.protocol": self.security_protocol,
        }
        if self.encrypted:
            options["ssl.endpoint.identification.algorithm"] = (
                "https" if self.check_hostname else "none"
            )
            if self.ca_file is not None:
                options["ssl.ca.location"] = str(self.ca_file)
            if self.client_certificate_file is not None:
                options["ssl.certificate.location"] = str(self.client_certificate_file)
                options["ssl.key.location"] = str(self.client_key_file)
            if self.client_key_password is not None:
                options["ssl.key.password"] = self.client_key_password.get_secret_value()
        if self.logs_in:
            options["sasl.mechanism"] = self.sasl_mechanism
            options["sasl.username"] = self.sasl_username
            options["sasl.password"] = self.password() or ""
        return options


def _variable(field: str) -> str:
    return ENV_PREFIX + field.upper()
