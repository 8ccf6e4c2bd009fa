"""Finds the newest pod of a name on topic `pod-lifecycle`."""

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages, SearchProgress
from schemas.messages.pods import PodLifecycle, PodRef

#: Records of the cluster's partition that are read, newest first.
RECORDS_MAX = 100_000


def find_pod(connection: Connection, cluster: str, namespace: str, name: str) -> PodRef | str:
    """Return the pod, or a sentence that it is unknown or has ended. Raises BrokerUnavailable."""
    looked = SearchProgress()
    past = PastMessages(connection, "pod-lifecycle", cluster, RECORDS_MAX)
    for message in past.newest(looked):
        if not isinstance(message, PodLifecycle):
            continue
        pod = message.pod
        if (pod.namespace, pod.name) != (namespace, name):
            continue
        if message.event in ("deleted", "finished"):
            return f"pod {namespace}/{name} of cluster {cluster} has ended: it was {message.event}"
        return PodRef(namespace=namespace, name=name, uid=pod.uid)
    where = "topic pod-lifecycle"
    if not looked.whole:
        where = f"the newest {looked.records} records of {where}"
    return f"pod {namespace}/{name} of cluster {cluster} is not in {where}"
