"""A producer of usage samples in Python: `python examples/producer.py`.

Messages are classes of `schemas`, so a wrong field or value is an error here instead of a dead letter
later. LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS is the address of the broker. A real producer sends a sample
of each node every 10 to 60 seconds.
"""

import time
from collections.abc import Iterator

from connectors.kafka.client import connect
from connectors.kafka.producer import Sender
from schemas.messages.usage import NodeUsage, PodUsage
from schemas.settings.connection import KafkaSettings

GIB = 2**30


def read_usage(cluster: str, now_ms: int) -> Iterator[NodeUsage]:
    """Yield one sample per node. Replace this function with a query to your monitoring system.

    CPU is in millicores, memory in bytes. Leave out resources that were not measured: missing is not 0.
    """
    web = PodUsage(
        namespace="shop", name="web-1", uid="pod-web-1", usage={"cpu": 3600, "memory": 3 * GIB}
    )
    yield NodeUsage(
        cluster=cluster,
        node="node-1",
        sampled_at_ms=now_ms,
        usage={"cpu": 4000, "memory": 4 * GIB},
        pods=(web,),
    )
    yield NodeUsage(
        cluster=cluster,
        node="node-2",
        sampled_at_ms=now_ms,
        usage={"cpu": 400, "memory": GIB},
    )


def main() -> None:
    """Send the samples, and wait for the acknowledgement of the broker."""
    now_ms = time.time_ns() // 1_000_000
    with Sender(connect(KafkaSettings.from_environment())) as sender:
        for sample in read_usage("my-cluster", now_ms):
            sender.send("node-usage", sample)
        sender.flush()


if __name__ == "__main__":
    main()
