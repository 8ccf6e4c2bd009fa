"""The example of a producer, on the embedded broker."""

import pytest

from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.reader import Reader, Record
from connectors.kafka.topics import expected_topics
from examples import producer
from schemas.messages.usage import NodeUsage
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker


def test_samples_are_in_the_partitions_of_their_keys(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect(embedded.settings)
    create_topics(connection, expected_topics(embedded.settings))
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", embedded.bootstrap_servers)
    producer.main()
    places = [("node-usage", number) for number in range(embedded.settings.partitions)]
    records: list[Record] = []
    with Reader(connection, dict.fromkeys(places, 0)) as reader:
        while len(records) < 2:
            records += (record for record in reader.more(due=True) if isinstance(record, Record))
    samples = {}
    for record in records:
        sample = decode(record.topic, record.value)
        assert isinstance(sample, NodeUsage)
        key = f"{sample.cluster}/{sample.node}".encode()
        assert record.partition == partition_for(key, embedded.settings.partitions)
        samples[sample.node] = sample
    assert samples["node-1"].usage["cpu"] == 4000
    assert samples["node-1"].pods[0].usage["cpu"] == 3600
    assert samples["node-2"].pods == ()
