"""Hands a cluster's collect policy on to the aggregate stage, which has the cluster's samples.

Once when a policy is applied, and again every hour of the log's time: samples are kept for days, so
a partition that begins without its rows, or an aggregate stage that ran later than that, meets the
policy again.
"""

from schemas.policy import CollectPolicies
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

#: Time between two times that the same policy is handed on, by the log's clock.
REPEAT_MS = 3_600_000


class CollectRelay:
    """When one cluster's collect policy was handed on."""

    def __init__(self) -> None:
        self.at_ms = 0
        """The log's time of the last time; 0: never, or before its clock ticked first."""

    def relay(self, policies: CollectPolicies, cause: Cause) -> list[OutputMessage]:
        """Hand a policy on."""
        self.at_ms = cause.now_ms
        default, pools = policies.of_nodes
        fields = {
            "schema_version": 1,
            "kind": "collect-policy",
            "cluster": cause.cluster,
            "number": 0,
            "default": default.model_dump(),
            "pools": {name: pool.model_dump() for name, pool in pools.items()},
            "as_of": cause.as_of,
        }
        return [OutputMessage("node-usage", fields)]

    def tick(self, policies: CollectPolicies, cause: Cause) -> list[OutputMessage]:
        """Hand it on again where it is time."""
        if cause.now_ms - self.at_ms < REPEAT_MS:
            return []
        return self.relay(policies, cause)
