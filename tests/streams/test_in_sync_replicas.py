"""The worker reports a topic with too few in-sync replicas and waits for it."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.topics import expected_topics
from connectors.process.local_ports import find_free_port
from tests.conftest import eventually, running
from tests.streams.noticing import http_get
from tests.streams.worker_process import Worker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]


def test_a_worker_whose_journal_refuses_writes_is_alive_but_not_ready_and_names_it(
    tmp_path: Path,
) -> None:
    port = find_free_port()
    with running(KafkaServer(tmp_path / "kafka", brokers=3)) as server:
        connection = connect(server.settings)
        create_topics(connection, expected_topics(server.settings))
        journal = ConfigResource(ResourceType.TOPIC, "journal")
        setting = ConfigEntry(
            "min.insync.replicas", "3", incremental_operation=AlterConfigOpType.SET
        )
        journal.add_incremental_config(setting)
        for answer in connection.admin.incremental_alter_configs([journal]).values():
            answer.result()
        with Worker(server.settings, tmp_path, metrics_port=str(port)) as worker:
            assert eventually(lambda: http_get(port, "/readyz")[0] == 200), worker.log()
            server.members[2].kill()
            problem = "cluster: topics refuse writes, because too few replicas are in sync: journal (2 in sync, 3 needed)"
            assert eventually(lambda: problem in http_get(port, "/readyz")[1]), worker.log()
            assert http_get(port, "/healthz")[0] == 200
            server.start_broker(2)
            assert eventually(lambda: http_get(port, "/readyz")[0] == 200), worker.log()
            worker.check()
