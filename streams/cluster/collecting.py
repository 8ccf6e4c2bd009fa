"""Hands a cluster's collect policy on to the aggregate stage, which has the cluster's samples.

Once when a policy is applied, and again every hour of the log's time: samples are kept for days, so
a partition that begins without its rows, or an aggregate stage that ran later than that, meets the
policy again.
"""

from schemas.collect import CollectPolicyRecord
from schemas.policy import CollectPolicies
from streams.inventory.cause import Cause

#: Time between two times that the same policy is handed on, by the log's clock.
REPEAT_MS = 3_600_000


class CollectRelay:
    """When one cluster's collect policy was handed on."""

    def __init__(self) -> None:
        self.at_ms = 0
        """The log's time of the last time; 0: never, or before its clock ticked first."""

    def relay(self, policies: CollectPolicies, cause: Cause) -> list[CollectPolicyRecord]:
        """Hand a policy on."""
        self.at_ms = cause.now_ms
        default, pools = policies.of_nodes
        return [
            CollectPolicyRecord(
                cluster=cause.cluster, default=default, pools=pools, as_of=cause.as_of
            )
        ]

    def tick(self, policies: CollectPolicies, cause: Cause) -> list[CollectPolicyRecord]:
        """Hand it on again where it is time."""
        if cause.now_ms - self.at_ms < REPEAT_MS:
            return []
        return self.relay(policies, cause)
