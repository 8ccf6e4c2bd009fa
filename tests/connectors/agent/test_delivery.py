"""Delivery of samples with a broker, without a broker, and after an outage."""

import threading
from pathlib import Path

import pytest

from connectors.agent.delivery import SAMPLES_MAX, Delivery
from connectors.brokers.embedded import EmbeddedBroker
from connectors.brokers.server import KafkaServer
from connectors.kafka.client import connect
from connectors.kafka.cluster_records import PastMessages
from schemas.messages.usage import NodeUsage
from schemas.settings.announcement import announce
from schemas.settings.connection import KafkaSettings
from tests.conftest import (
    KEEPS_OLD_RECORDS,
    RunningBroker,
    create_named,
    eventually,
    running,
)

_T0 = 1_795_000_000_000


def _sample(second: int) -> NodeUsage:
    return NodeUsage(
        cluster="c", node="n", sampled_at_ms=_T0 + second * 1_000, usage={"cpu": second}
    )


def _unreachable() -> KafkaSettings:
    return KafkaSettings.local("127.0.0.1:1", connect_timeout_s=0.3)


def test_samples_arrive_in_order(embedded: RunningBroker) -> None:
    delivered: list[int] = []
    delivery = Delivery(embedded.settings, delivered.append)
    delivery.start()
    for second in range(120):
        delivery.put(_sample(second))
    assert eventually(lambda: delivery.backlog == 0)
    delivery.close()
    assert delivered[-1] == _T0 + 119_000
    past = PastMessages(connect(embedded.settings), "node-usage", None, 1_000)
    times = [message.sampled_at_ms for message in past.newest()]
    assert times == [_T0 + second * 1_000 for second in range(119, -1, -1)]


@pytest.mark.broker
def test_without_a_broker_the_newest_wait_and_the_oldest_are_dropped() -> None:
    failures: list[str] = []
    delivery = Delivery(_unreachable(), on_failure=failures.append, retry_s=0.05)
    delivery.start()
    dropped = sum(delivery.put(_sample(second)) for second in range(SAMPLES_MAX + 100))
    assert eventually(lambda: len(failures) >= 2)
    assert "127.0.0.1:1" in failures[0]
    assert delivery.backlog == SAMPLES_MAX
    assert dropped == 100
    delivery.close()
    assert not any(thread.name == "delivery" for thread in threading.enumerate())


@pytest.mark.broker
def test_samples_from_an_outage_arrive_when_the_broker_returns(cache: Path) -> None:
    failures: list[str] = []
    delivery = Delivery(KafkaSettings.local(""), on_failure=failures.append, retry_s=0.05)
    delivery.start()
    delivery.put(_sample(1))
    assert eventually(lambda: len(failures) >= 2)
    assert "no broker found" in failures[0]
    delivery.put(_sample(2))
    with EmbeddedBroker() as server, announce(server.bootstrap_servers):
        assert eventually(lambda: delivery.backlog == 0)
        delivery.close()
        past = PastMessages(connect(server.settings), "node-usage", None, 10)
        times = [message.sampled_at_ms for message in past.newest()]
    assert times == [_T0 + 2_000, _T0 + 1_000]


@pytest.mark.kafka
def test_samples_measured_while_a_broker_was_killed_arrive_after_its_restart(
    tmp_path: Path,
) -> None:
    with running(KafkaServer(tmp_path, properties=KEEPS_OLD_RECORDS)) as server:
        create_named(server.settings, "node-usage")
        delivery = Delivery(server.settings, retry_s=0.1)
        delivery.start()
        delivery.put(_sample(1))
        assert eventually(lambda: delivery.backlog == 0)
        server.members[0].kill()
        for second in range(2, 60):
            delivery.put(_sample(second))
        assert delivery.backlog > 0
        server.start_broker()
        assert eventually(lambda: delivery.backlog == 0)
        delivery.close()
        past = PastMessages(connect(server.settings), "node-usage", None, 1_000)
        times = [message.sampled_at_ms for message in past.newest()]
    # A sample may come twice, since the broker was killed before its acknowledgement.
    assert list(dict.fromkeys(times)) == [_T0 + second * 1_000 for second in range(59, 0, -1)]
