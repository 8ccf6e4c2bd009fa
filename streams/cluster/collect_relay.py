"""Sends a cluster's collect policy to the aggregate stage, which has the cluster's samples.

The policy is sent when it is applied, and again every hour of log time. Topic `node-usage` keeps
records for days, so an aggregate stage that starts without rows still finds the policy there.
"""

from schemas.policy import CollectPolicies
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

#: Log time after which the same policy is sent again.
REPEAT_MS = 3_600_000


class CollectRelay:
    """Sends the collect policy of one cluster."""

    def __init__(self) -> None:
        self.sent_at_ms = 0
        """Log time of the last message; 0 if there was none, or before the first clock tick."""

    def send(self, policies: CollectPolicies, cause: Cause) -> list[OutputMessage]:
        self.sent_at_ms = cause.now_ms
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
        if cause.now_ms - self.sent_at_ms < REPEAT_MS:
            return []
        return self.send(policies, cause)
