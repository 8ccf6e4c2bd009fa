"""Gates of migrations and their messages."""

from typing import Any

import pytest

from schemas.messages.pods import VolumeClaim
from schemas.policy import read_policy
from streams.migration.limits.concurrency_limits import resolve_limit
from streams.migration.limits.objects import NamespaceRows, PriorityClasses
from streams.migration.protections import Protections
from streams.rebalance.candidates import Gate
from tests.streams.builders import (
    at,
    budget,
    controlled_by,
    lifecycle,
    migration_policy,
    node,
    outcome,
    policy_record,
    replica,
    user_request,
    workload,
)
from tests.streams.world import World, world_with_pods


def verdict(document: str = "", **fields: Any) -> str | None:
    """The static verdict on a replica on a node."""
    protections = Protections(read_policy(document), NamespaceRows("c"), PriorityClasses("c"))
    return protections.explain_uncached(replica("a", **{"node": "node-1", **fields}))


DAEMON = controlled_by("agent", kind="DaemonSet")
CLAIM = (VolumeClaim(name="data", storage_class="ssd"),)
NEVER = {"scheduling.koordinator.sh/eviction-cost": "2147483647"}
EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
INSIST = {EVICT: ""}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, None),
        ({"node": None}, "the pod is not bound to a node"),
        ({"deleting_at_ms": at(0)}, "the pod is terminating"),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, "the pod is a mirror pod"),
        ({"annotations": {"kubernetes.io/config.source": "file"}}, "the pod is static (from file)"),
        ({"owners": DAEMON}, "the pod is owned by a DaemonSet"),
        ({"annotations": NEVER}, "the pod's eviction cost is 2147483647, which means never"),
        ({"owners": ()},
         "the pod has no owner, so nothing would replace it; migration.evictAllBarePods permits it"),
        ({"owners": (), "phase": "Failed"},
         "the pod failed and has no owner; migration.evictFailedBarePods permits it"),
        ({"local_storage": True},
         "the pod has local storage (emptyDir or hostPath); evictLocalStoragePods is false"),
        ({"volume_claims": CLAIM}, None),
        ({"resource_claims": True}, None),
        ({"priority": 2_000_000_000},
         "the pod's priority 2000000000 is system critical; evictSystemCriticalPods is false"),
    ],
)  # fmt: skip
def test_a_pod_is_protected_by_default(fields: dict[str, Any], why: str | None) -> None:
    assert verdict(**fields) == why


@pytest.mark.parametrize(
    ("document", "fields", "why"),
    [
        ("evictor: {evictDaemonSetPods: true}", {"owners": DAEMON}, None),
        ("migration: {evictAllBarePods: true}", {"owners": ()}, None),
        ("migration: {skipEvictionGates: [BarePods]}", {"owners": ()}, None),
        ("migration: {evictFailedBarePods: true}", {"owners": ()},
         "the pod has no owner, so nothing would replace it; migration.evictAllBarePods permits it"),
        ("evictor: {evictFailedBarePods: true}", {"owners": (), "phase": "Failed"}, None),
        ("migration: {evictLocalStoragePods: true}", {"local_storage": True}, None),
        ("evictor: {evictLocalStoragePods: true}", {"local_storage": True}, None),
        ("migration: {skipEvictionGates: [LocalStoragePods]}", {"local_storage": True}, None),
        ("migration: {ignorePvcPods: true}", {"volume_claims": CLAIM},
         "the pod mounts claim data; ignorePvcPods is true"),
        ("evictor: {podProtections: {extraEnabled: [PodsWithPVC]}}", {"volume_claims": CLAIM},
         "the pod mounts claim data; PodsWithPVC protects it"),
        ("evictor: {podProtections: {extraEnabled: [PodsWithPVC], config: {PodsWithPVC: "
         "{protectedStorageClasses: [{name: hdd}]}}}}", {"volume_claims": CLAIM}, None),
        ("evictor: {podProtections: {extraEnabled: [PodsWithResourceClaims]}}",
         {"resource_claims": True}, "the pod has resource claims; PodsWithResourceClaims protects it"),
        ("migration: {priorityThreshold: {value: 100}}", {"priority": 100},
         "the pod's priority 100 is not below migration.priorityThreshold 100"),
        ("migration: {priorityThreshold: {value: 100}}", {"priority": 99}, None),
        ("migration: {priorityThreshold: {value: 100}, evictSystemCriticalPods: true}",
         {"priority": 2_000_000_000}, None),
        ("migration: {priorityThreshold: {value: 100}, skipEvictionGates: [PriorityThreshold]}",
         {"priority": 100}, None),
        ("migration: {priorityThreshold: {name: high}}", {},
         "migration.priorityThreshold names class high, whose value is unknown; set value "
         "instead, or send the cluster's priority classes"),
        ("{compat: koordinator, migration: {priorityThreshold: {name: high}}}", {}, None),
        ("evictor: {priorityThreshold: {name: system-cluster-critical}}", {"priority": 9_999}, None),
        ("migration: {namespaces: {include: [shop]}}", {},
         "namespace default is not among migration.namespaces"),
        ("migration: {namespaces: {include: [shop]}, skipEvictionGates: [Namespaces]}", {}, None),
        ("migration: {labelSelector: {matchLabels: {app: db}}}", {},
         "the pod's labels do not match migration.labelSelector"),
        ("evictor: {labelSelector: {matchLabels: {app: db}}}", {},
         "the pod's labels do not match evictor.labelSelector"),
        ("evictor: {namespaceLabelSelector: {}}", {}, None),
        ("evictor: {namespaceLabelSelector: {matchLabels: {team: shop}}}", {},
         "evictor.namespaceLabelSelector needs the labels of namespace default, which are "
         "unknown; send the cluster's namespaces"),
        ("evictor: {noEvictionPolicy: Preferred}", {"annotations": {PREFER_NO_EVICTION: "true"}}, None),
        ("compat: koordinator", {"annotations": {PREFER_NO_EVICTION: "true"}}, None),
        ("compat: koordinator", {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, None),
        ("compat: koordinator", {"annotations": {EVICT: "false"}, "local_storage": True}, None),
        ("migration: {skipEvictionGates: [DoNotDisrupt]}",
         {"annotations": {"karpenter.sh/do-not-disrupt": "true", EVICT: "false"}}, None),
        ("{compat: koordinator, evictor: {noEvictionPolicy: Mandatory}}",
         {"annotations": {PREFER_NO_EVICTION: ""}},
         "the pod has annotation descheduler.alpha.kubernetes.io/prefer-no-eviction; noEvictionPolicy is "
         "Mandatory"),
    ],
)  # fmt: skip
def test_arguments_lift_and_add_protections(
    document: str, fields: dict[str, Any], why: str | None
) -> None:
    assert verdict(document, **fields) == why


def test_the_evict_annotation_lifts_every_protection_except_termination() -> None:
    for fields in ({"owners": DAEMON}, {"local_storage": True}, {"priority": 2_000_000_000}):
        assert verdict(annotations=INSIST, **fields) is None
    assert verdict(annotations=INSIST | NEVER) is None
    assert verdict(annotations=INSIST, deleting_at_ms=at(0)) == "the pod is terminating"


def test_an_evict_annotation_with_the_value_false_lifts_no_protection() -> None:
    assert "local storage" in str(verdict(annotations={EVICT: "no"}, local_storage=True))
    assert verdict(annotations={EVICT: "true"}, local_storage=True) is None


def test_a_pod_stays_if_its_eviction_would_make_its_job_fail() -> None:
    pods = [(replica(uid, "import", kind="Job"), "node-1") for uid in "abc"]
    world = world_with_pods(migration_policy(), *pods)
    assert world.propose("a") == (
        "an eviction may count as a failure of Job default/import, which was not reported; send workloads"
    )
    world.send(workload("import", 3, evictions_allowed=0))
    assert world.propose("a") == (
        "an eviction counts as a failure of Job default/import, which allows none (backoffLimit, "
        "restartPolicy, podFailurePolicy)"
    )
    world.send(workload("import", 3, evictions_allowed=1))
    assert world.propose("a") is None
    assert world.propose("b") == (
        "an eviction counts as a failure of Job default/import, which allows 1; 1 pods are migrating"
    )
    world.send(policy_record(migration_policy("compat: koordinator")))
    assert world.propose("b") is None


def test_a_workload_whose_replicas_were_just_lowered_has_no_candidates() -> None:
    world = three(migration_policy(defaultJobMode="EvictDirectly"))
    world.send(workload(replicas=20))
    assert world.propose("a") is None
    world.send(workload(replicas=8))
    world.later(60)
    assert world.propose("b") == "the replicas of ReplicaSet default/web were lowered to 8 1m ago"
    assert world.evictions == []
    world.send(user_request("migrate", pod=replica("c")))
    world.later(60)
    assert [command.pod.uid for command in world.evictions] == ["c"]
    world.later(180)
    assert world.propose("b") is None


def test_a_job_that_has_fewer_pods_left_to_run_is_not_scaled_down() -> None:
    world = three(migration_policy())
    world.send(workload(replicas=20, owner_kind="Job"), workload(replicas=8, owner_kind="Job"))
    assert world.propose("a") is None


def test_a_verdict_is_kept_until_the_pod_or_the_policy_changes() -> None:
    world = world_with_pods(migration_policy(), (replica("a"), "node-1"))
    entry = world.state.inventory.find_held("a")
    assert entry is not None
    assert world.state.migrations.lifecycle.gates.protections.explain(entry[1]) is None
    world.send(policy_record("migration: {namespaces: {exclude: [default]}}"))
    assert "namespace default" in str(
        world.state.migrations.lifecycle.gates.protections.explain(entry[1])
    )


@pytest.mark.parametrize(
    ("value", "replicas", "count"),
    [
        (None, 1, 1), (None, 3, 1), (None, 4, 2), (None, 10, 2), (None, 11, 1), (None, 25, 2),
        (None, 0, 1), (5, 3, 3), (5, 100, 5), ("10%", 25, 2), ("10%", 3, 1), ("0%", 30, 1),
        ("100%", 4, 4), ("300%", 4, 4),
    ],
)  # fmt: skip
def test_a_share_of_a_workload_is_a_number_or_percentage_with_a_default(
    value: int | str | None, replicas: int, count: int
) -> None:
    assert resolve_limit(value, replicas) == count


def three(document: str, *, owner: str = "web") -> World:
    """Three replicas on node-1, one on node-2."""
    pods = [(replica(uid, owner), "node-1") for uid in "abc"]
    return world_with_pods(document, *pods, (replica("d", owner), "node-2"))


def test_a_pod_moves_once() -> None:
    world = three(migration_policy())
    assert world.propose("a") is None
    row = world.migration("a")
    assert world.propose("a") == f"migration {row.migration_id} of the pod is under way (Pending)"


def test_the_limit_per_node_ends_the_node() -> None:
    world = three(migration_policy(maxMigratingPerNode=2))
    assert [world.propose(uid) for uid in "ab"] == [None, None]
    text = "2 migrations are under way from node node-1; maxMigratingPerNode is 2"
    assert world.gate("c") == Gate("MaxMigratingPerNode", text, "node")
    assert world.propose("d") is None
    world = three(migration_policy(maxMigratingPerNode=1, skipEvictionGates=["MaxMigratingPerNode",
                   "MaxMigratingPerWorkload", "MaxUnavailablePerWorkload"]))  # fmt: skip
    assert [world.propose(uid) for uid in "abcd"] == [None] * 4


def test_a_pod_stuck_in_termination_does_not_count_in_the_limit_per_node() -> None:
    world = three(migration_policy(maxMigratingPerNode=1, defaultJobMode="EvictDirectly"))
    assert world.propose("a") is None
    world.later()
    world.send(outcome(world.evictions[0]))
    world.send(lifecycle("changed", replica("a", deleting_at_ms=at(31)), "node-1"))
    world.later(40)
    text = "1 migrations are under way from node node-1; maxMigratingPerNode is 1"
    assert world.propose("b") == text
    world.later(60)
    assert world.propose("b") is None


def test_the_limit_over_all_ends_the_round() -> None:
    world = three(migration_policy(maxMigratingGlobally=1))
    world.propose("a")
    text = "1 migrations are under way in the cluster; maxMigratingGlobally is 1"
    assert world.gate("d") == Gate("MaxMigratingGlobally", text, "round")


def test_the_limit_per_workload_is_a_share_of_its_replicas() -> None:
    gates: dict[str, Any] = {"skipEvictionGates": ["MaxUnavailablePerWorkload"]}
    world = three(migration_policy(maxMigratingPerWorkload="50%", **gates))
    assert [world.propose(uid) for uid in "ab"] == [None, None]
    assert world.propose("c") == (
        "2 migrations of ReplicaSet default/web with 4 replicas (inferred from the pods seen) are "
        "under way; 2 may be"
    )
    world = three(migration_policy(maxMigratingPerWorkload="50%", **gates))
    world.send(workload(replicas=2))
    world.propose("a")
    assert world.propose("b") == (
        "1 migrations of ReplicaSet default/web with 2 replicas are under way; 1 may be"
    )


def test_unavailable_pods_count_those_not_ready_moving_and_missing() -> None:
    args: dict[str, Any] = {
        "maxUnavailablePerWorkload": 2, "skipEvictionGates": ["MaxMigratingPerWorkload"],
    }  # fmt: skip
    world = world_with_pods(
        migration_policy(**args),
        (replica("a"), "node-1"), (replica("b"), "node-1"), (replica("c", ready=False), "node-1"),
    )  # fmt: skip
    world.send(workload(replicas=3))
    assert world.propose("a") is None
    assert world.propose("b") == (
        "2 pods of ReplicaSet default/web with 3 replicas are unavailable; 2 may be"
    )
    world = three(migration_policy(**args))
    world.send(workload(replicas=6))
    assert "2 pods of ReplicaSet default/web with 6 replicas are unavailable" in str(
        world.propose("a")
    )


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("maxMigratingPerWorkload", "2 may migrate"),
        ("maxUnavailablePerWorkload", "2 may be unavailable"),
    ],
)
def test_the_gate_names_the_limit_that_equals_all_replicas(limit: str, text: str) -> None:
    limits: dict[str, Any] = {limit: 2, "skipCheckExpectedReplicas": False}
    policy = migration_policy(**limits)
    world = world_with_pods(policy, (replica("a"), "node-1"), (replica("b"), "node-1"))
    assert f"is too small: {text} at once, which is all of them" in str(world.propose("a"))


@pytest.mark.parametrize(
    ("limits", "texts"),
    [
        ("maxNoOfPodsToEvictPerNode: 1",
         [None, "1 pods leave node-1 in this round; maxNoOfPodsToEvictPerNode is 1", None]),
        ("maxNoOfPodsToEvictPerNamespace: 1",
         [None, *["1 pods of namespace default leave in this round; "
                  "maxNoOfPodsToEvictPerNamespace is 1"] * 2]),
        ("maxNoOfPodsToEvictTotal: 2",
         [None, None, "2 pods leave in this round; maxNoOfPodsToEvictTotal is 2"]),
    ],
)  # fmt: skip
def test_limits_of_a_round_start_again_in_the_next_round(
    limits: str, texts: list[str | None]
) -> None:
    world = three(migration_policy(f"descheduling: {{{limits}}}"))
    assert [world.propose(uid) for uid in ("a", "b", "d")] == texts
    world.state.migrations.round_limits.begin()
    assert world.propose("c") is None


def test_a_workload_has_no_more_evictions_than_its_limiter_allows() -> None:
    limiter = {"workload": {"duration": "10s", "maxMigrating": 1, "burst": 2}}
    world = three(migration_policy(objectLimiters=limiter, defaultJobMode="EvictDirectly"))
    assert [world.propose(uid) for uid in "ab"] == [None, None]
    name = "ReplicaSet default/web with 4 replicas (inferred from the pods seen)"
    assert world.propose("c") == (
        f"{name} has reached objectLimiters.workload: 2 left, 2 migrations come first"
    )
    world.later()
    assert len(world.evictions) == 2
    assert world.propose("c") == (
        f"{name} has reached objectLimiters.workload: 2 at once; the next eviction is possible in 10s"
    )
    world.later(9.999)
    assert world.propose("c") is not None
    world.later(0.001)
    assert world.propose("c") is None


def test_a_namespace_limiter_takes_numbers_and_upstream_reads_a_percentage_as_off() -> None:
    for compat, most, expected in (("loadstream", 1, 1), ("koordinator", "1%", 3)):
        limiter = {"namespace": {"duration": "10s", "maxMigrating": most}}
        world = three(
            migration_policy(
                f"compat: {compat}", objectLimiters=limiter, defaultJobMode="EvictDirectly"
            )
        )
        for uid in "abc":
            world.propose(uid)
        world.later()
        assert len(world.evictions) == expected


def test_waiting_migrations_of_all_owners_count_in_the_limiter_of_their_namespace() -> None:
    limiter = {"namespace": {"duration": "1h", "maxMigrating": 2, "burst": 2}}
    pods = [replica(f"of-{owner}", owner=owner) for owner in ("one", "two", "three")]
    bare = replica("bare").model_copy(update={"owners": ()})
    world = world_with_pods(
        migration_policy(objectLimiters=limiter, evictAllBarePods=True),
        *((pod, "node-1") for pod in (*pods, bare)),
    )
    assert [world.propose(f"of-{owner}") for owner in ("one", "two")] == [None, None]
    assert (
        world.propose("of-three")
        == world.propose("bare")
        == (
            "namespace default has reached objectLimiters.namespace: 2 left, 2 migrations come first"
        )
    )


def test_a_budget_is_respected_within_a_batch_and_restored_by_a_refusal() -> None:
    world = three(migration_policy(defaultJobMode="EvictDirectly"))
    world.send(budget(1))
    assert world.propose("a") is None
    assert world.propose("b") == (
        "disruption budget default/web allows 1 more, and 1 migration waits for it"
    )
    world.later()
    assert world.propose("b") == (
        "disruption budget default/web allows 1 disruption (3 of 3 pods are healthy, 2 must be); "
        "eviction commands use 1"
    )
    world.send(outcome(world.evictions[0], "refused"))
    world.send(budget(2))
    assert world.propose("b") is None


def test_an_expired_command_of_a_paused_migration_releases_its_budget() -> None:
    world = three(migration_policy(defaultJobMode="EvictDirectly"))
    world.send(budget(1), user_request("migrate", pod=replica("a"), ttl_ms=60_000))
    world.later()
    world.send(user_request("pause", pod=replica("a")))
    assert "eviction commands use 1" in str(world.propose("b"))
    world.later(60)
    assert world.migration("a").paused
    assert world.propose("b") is None


def test_a_pod_with_two_budgets_is_not_evicted() -> None:
    world = three(migration_policy())
    world.send(budget(5), budget(5, name="other"))
    assert world.propose("a") == (
        "2 disruption budgets select the pod (other, web); Kubernetes evicts no pod that has more "
        "than one"
    )
    world.send(budget(5, name="other", removed=True))
    assert world.propose("a") is None


def test_pods_of_other_schedulers_stay_or_are_evicted_directly() -> None:
    other = replica("a", scheduler="default-scheduler")
    world = world_with_pods(migration_policy(), (other, "node-1"))
    assert world.propose("a") == (
        "the pod's scheduler default-scheduler is not among migration.schedulerNames "
        "(loadstream, koord-scheduler); otherSchedulers is refuse"
    )
    world = world_with_pods(migration_policy("otherSchedulers: evictDirectly"), (other, "node-1"))
    assert world.propose("a") is None
    assert world.migration("a").mode == "EvictDirectly"


def test_no_room_is_reserved_for_a_pod_with_unsupported_requirements() -> None:
    zonal = replica("a", unsupported=("topology spread",))
    world = world_with_pods(migration_policy(), (zonal, "node-1"))
    why = (
        "the pod requires topology spread, which loadstream does not evaluate, so no room can be reserved "
        "for a replacement; mode EvictDirectly needs none"
    )
    assert world.propose("a") == why
    world.send(user_request("migrate", pod=zonal))
    assert world.last == ("Failed", "FailedCreateReservation")
    assert world.migrations[-1].message == why
    world.send(user_request("drain", node="node-1"))
    assert [pod.reason for pod in world.drains[-1].protected] == [why]
    world.send(user_request("drain", node="node-1", mode="EvictDirectly"))
    assert world.drains[-1].pods_left == 1
    world.later()
    assert world.migration("a").mode == "EvictDirectly"
    assert [command.pod.uid for command in world.evictions] == ["a"]


def test_a_migration_fails_when_its_pod_gets_unsupported_requirements() -> None:
    pod = replica("a")
    world = world_with_pods(migration_policy(), (pod, "node-1"))
    assert world.propose("a") is None
    changed = pod.model_copy(update={"unsupported": ("topology spread",)})
    world.send(lifecycle("changed", changed, "node-1"))
    world.later()
    assert world.last == ("Failed", "FailedCreateReservation")
    (condition,) = world.migrations[-1].conditions
    assert condition.reason == "FailedCreateReservation"
    assert world.evictions == []


def test_maintenance_windows_delay_proposals_and_commands() -> None:
    # The tests' log begins on 2025-10-09, a Thursday, at 08:53:20 UTC.
    window = "maintenance: {windows: [{days: [thu], from: '09:00', to: '10:00'}]}"
    world = world_with_pods(migration_policy(window), (replica("a"), "node-1"))
    assert world.propose("a") == (
        "outside of the maintenance windows of the policy (thu 09:00 to 10:00 +00:00); opens in "
        "6m39s"
    )
    world.later(400)
    assert world.propose("a") is None
    world.later()
    assert len(world.evictions) == 1


def test_node_selector_pod_age_and_node_fit_are_checked() -> None:
    world = world_with_pods(migration_policy(nodeSelector="pool=web"), (replica("a"), "node-1"))
    assert world.propose("a") == "node node-1 does not match migration.nodeSelector"
    world.send(node("node-1", labels={"pool": "web"}))
    assert world.propose("a") is None

    young = replica("a", created_at_ms=at(0))
    world = world_with_pods(migration_policy("evictor: {minPodAge: 1m}"), (young, "node-1"))
    assert world.propose("a") == "the pod is 1s old; minPodAge is 1m"
    world.later(59)
    assert world.propose("a") is None
    world = world_with_pods(
        migration_policy("evictor: {minPodAge: 1m}"), (replica("a", created_at_ms=at(60)), "node-1")
    )
    assert world.propose("a") == "the pod is 0s old; minPodAge is 1m"

    big = replica("a", cpu="8")
    world = world_with_pods(
        migration_policy(nodeFit=True), (big, "node-1"), (replica("b"), "node-2"), nodes=2
    )
    assert world.propose("a") == "no other node accepts the pod; nodeFit is true"


def test_required_replicas_and_budgets_are_checked() -> None:
    world = three(migration_policy("evictor: {minReplicas: 5}"))
    assert world.propose("a") == (
        "ReplicaSet default/web with 4 replicas (inferred from the pods seen); minReplicas is 5"
    )
    world = three(migration_policy("evictor: {ignorePodsWithoutPDB: true}"))
    assert world.propose("a") == "no disruption budget covers the pod"
    document = "evictor: {podProtections: {extraEnabled: [PodsWithPDBBlockingSingleReplicaOwner]}}"
    world = world_with_pods(migration_policy(document), (replica("a"), "node-1"))
    world.send(budget(0))
    assert world.propose("a") == (
        "ReplicaSet default/web with 1 replica (inferred from the pods seen) is covered by a "
        "disruption budget that allows no eviction"
    )
