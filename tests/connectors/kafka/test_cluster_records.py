"""`connectors.kafka.cluster_records` on an embedded broker."""

from confluent_kafka import Producer

from connectors.kafka.client import connect
from connectors.kafka.cluster_records import PastMessages, SearchProgress, read_rows
from connectors.kafka.produce import produce_messages
from connectors.kafka.topics import changelog_name
from schemas.messages.nodes import NodeState
from schemas.storage.rows import FailedClusterRow
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker


def test_only_the_newest_rows_of_a_cluster_are_read(embedded: RunningBroker) -> None:
    home = partition_for(b"blue", embedded.settings.partitions)
    producer = Producer({**embedded.settings.librdkafka_options(), "log_level": 0})
    apart = FailedClusterRow(cluster="blue", set_apart=True)
    for key, row in (
        ("blue/failed_clusters/changed", FailedClusterRow(cluster="blue")),
        ("blue/failed_clusters/changed", apart),
        ("blue/failed_clusters/removed", apart),
        ("blue/failed_clusters/removed", None),
        ("blue/clusters/", FailedClusterRow(cluster="blue")),
        ("blue-2/failed_clusters/", FailedClusterRow(cluster="blue-2")),
    ):
        value = None if row is None else encode(row)
        producer.produce(
            changelog_name("cluster"), value, key=f"{home}/{key}".encode(), partition=home
        )
    assert producer.flush(60) == 0
    connection = connect(embedded.settings)
    assert read_rows(connection, "failed_clusters", "blue", FailedClusterRow) == [apart]


def test_a_search_reads_from_the_end_up_to_its_limit(embedded: RunningBroker) -> None:
    count = 1_000
    states = [NodeState(cluster="blue", node=f"n{n}", event="added") for n in range(count)]
    connection = connect(embedded.settings)
    assert produce_messages(connection, "node-state", states)[1] == []
    looked = SearchProgress()
    newest = PastMessages(connection, "node-state", "blue", 10_000).newest(looked)
    assert next(newest) == states[-1]
    assert looked.records == 1
    assert list(newest) == states[-2::-1]
    assert looked.whole
    bounded = SearchProgress()
    messages = list(PastMessages(connection, "node-state", "blue", 150).newest(bounded))
    assert (len(messages), bounded.records, bounded.whole) == (150, 150, False)
