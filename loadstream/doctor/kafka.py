"""Checks of Kafka: brokers and their certificates, and the topics."""

import socket
import ssl
from collections.abc import Iterator
from itertools import chain

from connectors.process import wall_clock
from connectors.queries.cluster_reading import KafkaState
from connectors.units import count_text, names_text
from loadstream.doctor.findings import Finding, error, ok, warning
from schemas.settings.connection import KafkaSettings

#: A certificate that expires within this time is a warning: enough time to renew it in office hours.
EXPIRES_SOON_MS = 14 * 86_400_000
#: Topics that a line names.
_NAMED_MAX = 3
_TIMEOUT_S = 5.0


def check_brokers(kafka: KafkaState) -> Iterator[Finding]:
    """Find partitions without a leader, or with a missing or lagging replica."""
    if kafka.leaderless:
        names = sorted(f"{topic}/{partition}" for topic, partition in kafka.leaderless)
        yield error(
            "brokers",
            f"{count_text(len(names), 'partition')} without a leader: {names_text(names, _NAMED_MAX)}",
            "Start the brokers that hold them",
        )
    elif kafka.partly_copied:
        yield warning(
            "brokers",
            f"a replica of {count_text(kafka.partly_copied, 'partition')} is missing or lagging",
            "Start the broker that holds it",
        )
    else:
        kind = "embedded, for trying only" if kafka.embedded else kafka.servers
        yield ok("brokers", f"{count_text(kafka.brokers, 'broker')} ({kind})")


def check_certificates(settings: KafkaSettings) -> Iterator[Finding]:
    """Find certificates of the configured brokers that expire soon; nothing without TLS."""
    context = settings.ssl_context()
    if context is None:
        return
    for server in settings.servers():
        host, _, port = server.rpartition(":")
        try:
            address = (host.strip("[]"), int(port))
            with (
                socket.create_connection(address, timeout=_TIMEOUT_S) as plain,
                context.wrap_socket(plain, server_hostname=address[0]) as encrypted,
            ):
                certificate = encrypted.getpeercert() or {}
        except OSError as failure:  # the other checks may have used another broker
            yield warning("certificates", f"{server} does not answer: {failure}")
            continue
        end = str(certificate.get("notAfter", ""))
        left_ms = ssl.cert_time_to_seconds(end) * 1_000 - wall_clock.now_ms() if end else None
        if left_ms is not None and left_ms < EXPIRES_SOON_MS:
            yield warning(
                "certificates", f"the certificate of {server} expires on {end}", "Renew it"
            )
        else:
            yield ok(
                "certificates",
                f"the certificate of {server} is valid until {end or 'an unknown time'}",
            )


def check_topics(kafka: KafkaState) -> Iterator[Finding]:
    """Find topics that are missing, or differ in partitions, replicas or settings."""
    missing = kafka.missing
    if missing:
        text = (
            f"{len(missing)} of {len(kafka.topics)} are missing: {names_text(missing, _NAMED_MAX)}"
        )
        yield error("topics", text, "Run `loadstream topic create`")
    all_findings = chain.from_iterable(kafka.topics.values())
    differing = [finding for finding in all_findings if finding.verdict == "differs"]
    for finding in differing[:_NAMED_MAX]:
        # With another number of partitions, keys hash to other partitions.
        make = error if finding.setting == "partitions" else warning
        text = f"{finding.topic}: {finding.setting}: expected {finding.expected}, found {finding.found}"
        yield make("topics", text, finding.remedy.rstrip("."))
    if len(differing) > _NAMED_MAX:
        more = count_text(len(differing) - _NAMED_MAX, "more difference")
        yield warning("topics", more, "See `loadstream topic check`")
    if not missing and not differing:
        yield ok("topics", f"all {len(kafka.topics)} exist")
