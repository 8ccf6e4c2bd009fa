"""Shapes of the configurations that can be pasted into a policy file.

KubeSchedulerConfiguration of the Kubernetes scheduler, which Koordinator's scheduler reads as well,
DeschedulerConfiguration of Koordinator's descheduler, DeschedulerPolicy of the Kubernetes
descheduler. The models only say which fields exist, so that a misspelt one is an error; those
marked `NOT_APPLIED` are accepted whatever they hold, and listed. `schemas.policy.pasting` takes out
what has an effect; such values are `Any` here, because they are checked where they end up.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from schemas.policy.parts import NOT_APPLIED, Int32, Items, Name, PolicyPart
from schemas.policy.plugins import named

_Ignored = Annotated[Any, NOT_APPLIED]


class ClientConnection(PolicyPart):
    """How upstream talks to the API server."""

    kubeconfig: Any = None
    accept_content_types: Any = None
    content_type: Any = None
    qps: Any = None
    burst: Any = None


class LeaderElection(PolicyPart):
    """How upstream picks its one active process."""

    leader_elect: Any = None
    lease_duration: Any = None
    renew_deadline: Any = None
    retry_period: Any = None
    resource_lock: Any = None
    resource_name: Any = None
    resource_namespace: Any = None


class _Component(PolicyPart):
    """What configurations of both components have."""

    client_connection: Annotated[ClientConnection | None, NOT_APPLIED] = None
    leader_election: Annotated[LeaderElection | None, NOT_APPLIED] = None
    enable_profiling: _Ignored = None
    enable_contention_profiling: _Ignored = None
    healthz_bind_address: _Ignored = None
    metrics_bind_address: _Ignored = None


class PluginReference(PolicyPart):
    """A plugin in a list of enabled or disabled ones."""

    name: Name
    weight: Int32 | None = None


_References = Items[Annotated[PluginReference, BeforeValidator(named)]]


class PluginSet(PolicyPart):
    """Plugins enabled beside the default ones, and default ones disabled ("*": all)."""

    enabled: _References = ()
    disabled: _References = ()


class PluginConfig(PolicyPart):
    """Arguments of one plugin."""

    name: Name
    args: Any = None


class SchedulerPlugins(PolicyPart):
    """Extension points of the scheduler."""

    filter: PluginSet | None = None
    score: PluginSet | None = None
    multi_point: PluginSet | None = None
    pre_enqueue: PluginSet | None = None
    queue_sort: PluginSet | None = None
    pre_filter: PluginSet | None = None
    post_filter: PluginSet | None = None
    pre_score: PluginSet | None = None
    reserve: PluginSet | None = None
    permit: PluginSet | None = None
    pre_bind: PluginSet | None = None
    bind: PluginSet | None = None
    post_bind: PluginSet | None = None
    placement_generate: PluginSet | None = None
    placement_score: PluginSet | None = None
    placement_feasible: PluginSet | None = None
    pod_group_post_filter: PluginSet | None = None


class SchedulerProfile(PolicyPart):
    """A scheduling profile."""

    scheduler_name: _Ignored = None
    percentage_of_nodes_to_score: _Ignored = None
    percentage_of_placements_to_score: _Ignored = None
    plugins: SchedulerPlugins | None = None
    plugin_config: Items[PluginConfig] = ()


class KubeSchedulerConfiguration(_Component):
    """Configuration of the Kubernetes scheduler or of Koordinator's."""

    api_version: Literal[
        "kubescheduler.config.k8s.io/v1",
        "kubescheduler.config.k8s.io/v1beta3",
        "kubescheduler.config.k8s.io/v1beta2",
        "kubescheduler.config.k8s.io/v1beta1",
    ]
    kind: Literal["KubeSchedulerConfiguration"]
    parallelism: _Ignored = None
    percentage_of_nodes_to_score: _Ignored = None
    percentage_of_placements_to_score: _Ignored = None
    pod_initial_backoff_seconds: Any = None
    pod_max_backoff_seconds: Any = None
    profiles: Items[SchedulerProfile] = ()
    extenders: _Ignored = None
    delay_cache_until_active: _Ignored = None


class DeschedulerPlugins(PolicyPart):
    """Extension points of the descheduler."""

    balance: PluginSet | None = None
    deschedule: PluginSet | None = None
    evict: PluginSet | None = None
    filter: PluginSet | None = None
    sort: PluginSet | None = None
    pre_sort: PluginSet | None = Field(None, alias="presort")
    pre_eviction_filter: PluginSet | None = Field(None, alias="preevictionfilter")


class DeschedulerProfile(PolicyPart):
    """A descheduling profile."""

    name: _Ignored = None
    node_selector: Any = None
    plugins: DeschedulerPlugins | None = None
    plugin_config: Items[PluginConfig] = ()


class _Descheduler(PolicyPart):
    """What both deschedulers have."""

    api_version: Literal["descheduler/v1alpha2"]
    profiles: Items[DeschedulerProfile] = ()
    node_selector: Any = None
    max_no_of_pods_to_evict_per_node: Any = None
    max_no_of_pods_to_evict_per_namespace: Any = None
    max_no_of_pods_to_evict_total: Any = None


class DeschedulerConfiguration(_Descheduler, _Component):
    """Configuration of Koordinator's descheduler."""

    kind: Literal["DeschedulerConfiguration"]
    descheduling_interval: Any = None
    dry_run: Any = None


class DeschedulerPolicy(_Descheduler):
    """Policy of the Kubernetes descheduler."""

    kind: Literal["DeschedulerPolicy"]
    eviction_failure_event_notification: _Ignored = None
    metrics_collector: _Ignored = None
    metrics_providers: _Ignored = None
    grace_period_seconds: _Ignored = None


#: Documents that can be pasted, by kind.
PASTED: dict[str, type[PolicyPart]] = {
    model.__name__: model
    for model in (KubeSchedulerConfiguration, DeschedulerConfiguration, DeschedulerPolicy)
}
