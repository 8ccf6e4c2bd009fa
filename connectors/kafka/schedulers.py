"""The schedulers of a cluster's pods, and whether a policy's rebalancing reaches any."""

from collections import Counter

from connectors.kafka.backwards import Looked, Past
from connectors.kafka.client import Connection
from schemas.pods import PodLifecycle
from schemas.policy import Policy

#: Records of `pod-lifecycle` that are looked at, newest first.
RECORDS_MAX = 20_000
#: Schedulers that a warning names.
_NAMED_MAX = 5
#: What Kubernetes takes if a pod names none.
_DEFAULT = "default-scheduler"


def schedulers_of(connection: Connection, cluster: str) -> Counter[str]:
    """How many pods of each scheduler the newest records name. Raises BrokerUnavailable."""
    newest: dict[str, str | None] = {}
    for message in Past(connection, "pod-lifecycle", cluster, RECORDS_MAX).newest(Looked()):
        if isinstance(message, PodLifecycle):
            gone = message.event in ("finished", "deleted")
            newest.setdefault(message.pod.uid, None if gone else message.pod.scheduler or _DEFAULT)
    return Counter(each for each in newest.values() if each is not None)


def unreached(policy: Policy, schedulers: Counter[str]) -> str | None:
    """That rebalancing leaves all pods alone for their scheduler; none: it does not."""
    names = policy.migration.scheduler_names
    rebalances = any(
        pool.high_thresholds or pool.prod_high_thresholds
        for pool in policy.rebalance.pools(policy.compat)
    )
    direct = (
        policy.other_schedulers == "evictDirectly"
        or policy.migration.default_job_mode == "EvictDirectly"
    )
    if not rebalances or direct or not schedulers or any(name in schedulers for name in names):
        return None
    theirs = ", ".join(f"{name} ({count})" for name, count in schedulers.most_common(_NAMED_MAX))
    return (
        f"none of {schedulers.total()} pods is of a scheduler of migration.schedulerNames "
        f"({', '.join(names)}); theirs: {theirs}. Rebalancing leaves all of them alone but those that "
        "loadstream placed: name their scheduler, or set otherSchedulers: evictDirectly"
    )
