"""Kafka settings as Faust wants them; one of the few modules of the streams that know Faust.

Faust takes addresses as URLs and the login as an object of its own, so the options of the other
clients (`KafkaSettings.aiokafka_options`) are of no use to it. Give both to the app:

    faust.App(APP_ID, broker=broker_urls(settings), broker_credentials=broker_credentials(settings))
"""

from typing import Any

import faust

from schemas.settings.connection import KafkaSettings


def broker_urls(settings: KafkaSettings) -> list[str]:
    """Addresses as Faust's setting `broker` takes them; encryption is no part of them.

    Raises NoBroker where no address is configured and no local broker is announced.
    """
    return [f"kafka://{server}" for server in settings.servers()]


def broker_credentials(settings: KafkaSettings) -> Any:
    """Faust's setting `broker_credentials`: encryption and login; None where there is neither."""
    context = settings.ssl_context()
    if settings.logs_in:
        return faust.SASLCredentials(
            username=settings.sasl_username,
            password=settings.password(),
            ssl_context=context,
            mechanism=settings.sasl_mechanism,
        )
    return faust.SSLCredentials(context) if context is not None else None
