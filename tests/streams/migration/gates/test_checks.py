"""Gates of migrations and their messages."""

from typing import Any

import pytest

from schemas.messages.pods import VolumeClaim
from streams.migration.gates.concurrency_limits import resolve_limit
from streams.migration.gates.protections import Protections
from streams.rebalance.candidates import Gate
from tests.streams.cluster.builders import (
    ask,
    at,
    budget,
    controlled_by,
    evicted,
    lifecycle,
    node,
    policy,
    policy_record,
    policy_text,
    replica,
    workload,
)
from tests.streams.migration.harness import Moving, cluster


def verdict(document: str = "", **fields: Any) -> str | None:
    """The static verdict on a replica on a node."""
    return Protections(policy(document)).explain_unheld(
        replica("a", **{"node": "node-1", **fields})
    )


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
        ({"owners": ()}, "the pod has no owner; neither evictFailedBarePods nor evictAllBarePods is set"),
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
         "the pod has no owner and is Running; evictFailedBarePods allows Failed"),
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
    assert Protections(policy("")).has_evict_annotation(replica("a", annotations=INSIST))


def test_an_evict_annotation_that_says_false_lifts_no_protection() -> None:
    assert "local storage" in str(verdict(annotations={EVICT: "no"}, local_storage=True))
    assert verdict(annotations={EVICT: "true"}, local_storage=True) is None


def test_a_pod_stays_whose_eviction_would_make_its_job_fail() -> None:
    pods = [(replica(uid, "import", kind="Job"), "node-1") for uid in "abc"]
    moving = cluster(policy_text(), *pods)
    assert moving.propose("a") == (
        "an eviction may count as a failure of Job default/import, which is unknown: send workloads"
    )
    moving.say(workload("import", 3, evictions_allowed=0))
    assert moving.propose("a") == (
        "an eviction counts as a failure of Job default/import, which allows none (backoffLimit, "
        "restartPolicy, podFailurePolicy)"
    )
    moving.say(workload("import", 3, evictions_allowed=1))
    assert moving.propose("a") is None
    assert moving.propose("b") == (
        "an eviction counts as a failure of Job default/import, which allows 1; 1 pods are migrating"
    )
    moving.say(policy_record(policy_text("compat: koordinator")))
    assert moving.propose("b") is None


def test_a_workload_whose_replicas_were_just_lowered_has_no_candidates() -> None:
    moving = three(policy_text(defaultJobMode="EvictDirectly"))
    moving.say(workload(replicas=20))
    assert moving.propose("a") is None
    moving.say(workload(replicas=8))
    moving.later(60)
    assert moving.propose("b") == "the replicas of ReplicaSet default/web were lowered to 8 1m ago"
    assert moving.commands == []
    moving.say(ask("migrate", pod=replica("c")))
    moving.later(60)
    assert [command.pod.uid for command in moving.commands] == ["c"]
    moving.later(180)
    assert moving.propose("b") is None


def test_a_job_that_has_fewer_pods_left_to_run_is_not_scaled_down() -> None:
    moving = three(policy_text())
    moving.say(workload(replicas=20, owner_kind="Job"), workload(replicas=8, owner_kind="Job"))
    assert moving.propose("a") is None


def test_a_verdict_is_kept_until_the_pod_or_the_policy_changes() -> None:
    moving = cluster(policy_text(), (replica("a"), "node-1"))
    found = moving.state.inventory.find_held("a")
    assert found is not None
    assert moving.state.migrations.lifecycle.gates.protections.explain(found[1]) is None
    moving.say(policy_record("migration: {namespaces: {exclude: [default]}}"))
    assert "namespace default" in str(
        moving.state.migrations.lifecycle.gates.protections.explain(found[1])
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


def three(document: str, *, owner: str = "web") -> Moving:
    """Three replicas on node-1, one on node-2."""
    pods = [(replica(uid, owner), "node-1") for uid in "abc"]
    return cluster(document, *pods, (replica("d", owner), "node-2"))


def test_a_pod_moves_once() -> None:
    moving = three(policy_text())
    assert moving.propose("a") is None
    row = moving.row("a")
    assert moving.propose("a") == f"migration {row.migration_id} of the pod is under way (Pending)"


def test_the_limit_per_node_ends_the_node() -> None:
    moving = three(policy_text(maxMigratingPerNode=2))
    assert [moving.propose(uid) for uid in "ab"] == [None, None]
    text = "2 migrations are under way from node node-1; maxMigratingPerNode is 2"
    assert moving.gate("c") == Gate("MaxMigratingPerNode", text, "node")
    assert moving.propose("d") is None
    moving = three(policy_text(maxMigratingPerNode=1, skipEvictionGates=["MaxMigratingPerNode",
                   "MaxMigratingPerWorkload", "MaxUnavailablePerWorkload"]))  # fmt: skip
    assert [moving.propose(uid) for uid in "abcd"] == [None] * 4


def test_a_pod_stuck_in_termination_does_not_count_in_the_limit_per_node() -> None:
    moving = three(policy_text(maxMigratingPerNode=1, defaultJobMode="EvictDirectly"))
    assert moving.propose("a") is None
    moving.later()
    moving.say(evicted(moving.commands[0]))
    moving.say(lifecycle("changed", replica("a", deleting_at_ms=at(31)), "node-1"))
    moving.later(40)
    text = "1 migrations are under way from node node-1; maxMigratingPerNode is 1"
    assert moving.propose("b") == text
    moving.later(60)
    assert moving.propose("b") is None


def test_the_limit_over_all_ends_the_round() -> None:
    moving = three(policy_text(maxMigratingGlobally=1))
    moving.propose("a")
    text = "1 migrations are under way in the cluster; maxMigratingGlobally is 1"
    assert moving.gate("d") == Gate("MaxMigratingGlobally", text, "round")


def test_the_limit_per_workload_is_a_share_of_its_replicas() -> None:
    gates: dict[str, Any] = {"skipEvictionGates": ["MaxUnavailablePerWorkload"]}
    moving = three(policy_text(maxMigratingPerWorkload="50%", **gates))
    assert [moving.propose(uid) for uid in "ab"] == [None, None]
    assert moving.propose("c") == (
        "2 migrations of ReplicaSet default/web with 4 replicas (inferred from the pods seen) are "
        "under way; 2 may be"
    )
    moving = three(policy_text(maxMigratingPerWorkload="50%", **gates))
    moving.say(workload(replicas=2))
    moving.propose("a")
    assert moving.propose("b") == (
        "1 migrations of ReplicaSet default/web with 2 replicas are under way; 1 may be"
    )


def test_unavailable_pods_count_those_not_ready_moving_and_missing() -> None:
    args: dict[str, Any] = {
        "maxUnavailablePerWorkload": 2, "skipEvictionGates": ["MaxMigratingPerWorkload"],
    }  # fmt: skip
    moving = cluster(
        policy_text(**args),
        (replica("a"), "node-1"), (replica("b"), "node-1"), (replica("c", ready=False), "node-1"),
    )  # fmt: skip
    moving.say(workload(replicas=3))
    assert moving.propose("a") is None
    assert moving.propose("b") == (
        "2 pods of ReplicaSet default/web with 3 replicas are unavailable; 2 may be"
    )
    moving = three(policy_text(**args))
    moving.say(workload(replicas=6))
    assert "2 pods of ReplicaSet default/web with 6 replicas are unavailable" in str(
        moving.propose("a")
    )


@pytest.mark.parametrize(
    ("limit", "what"),
    [
        ("maxMigratingPerWorkload", "2 may migrate"),
        ("maxUnavailablePerWorkload", "2 may be unavailable"),
    ],
)
def test_the_gate_names_the_limit_that_equals_all_replicas(limit: str, what: str) -> None:
    limits: dict[str, Any] = {limit: 2, "skipCheckExpectedReplicas": False}
    policy = policy_text(**limits)
    moving = cluster(policy, (replica("a"), "node-1"), (replica("b"), "node-1"))
    assert f"is too small: {what} at once, which is all of them" in str(moving.propose("a"))


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
    moving = three(policy_text(f"descheduling: {{{limits}}}"))
    assert [moving.propose(uid) for uid in ("a", "b", "d")] == texts
    moving.state.migrations.round_limits.begin()
    assert moving.propose("c") is None


def test_a_workload_has_no_more_evictions_than_its_limiter_allows() -> None:
    limiter = {"workload": {"duration": "10s", "maxMigrating": 1, "burst": 2}}
    moving = three(policy_text(objectLimiters=limiter, defaultJobMode="EvictDirectly"))
    assert [moving.propose(uid) for uid in "ab"] == [None, None]
    name = "ReplicaSet default/web with 4 replicas (inferred from the pods seen)"
    assert moving.propose("c") == (
        f"{name} has reached objectLimiters.workload: 2 left, 2 migrations come first"
    )
    moving.later()
    assert len(moving.commands) == 2
    assert moving.propose("c") == (
        f"{name} has reached objectLimiters.workload: 2 at once; the next eviction is possible in 10s"
    )
    moving.later(9.999)
    assert moving.propose("c") is not None
    moving.later(0.001)
    assert moving.propose("c") is None


def test_a_namespace_limiter_takes_numbers_and_upstream_reads_a_percentage_as_off() -> None:
    for compat, most, expected in (("loadstream", 1, 1), ("koordinator", "1%", 3)):
        limiter = {"namespace": {"duration": "10s", "maxMigrating": most}}
        moving = three(
            policy_text(f"compat: {compat}", objectLimiters=limiter, defaultJobMode="EvictDirectly")
        )
        for uid in "abc":
            moving.propose(uid)
        moving.later()
        assert len(moving.commands) == expected


def test_waiting_migrations_of_all_owners_count_in_the_limiter_of_their_namespace() -> None:
    limiter = {"namespace": {"duration": "1h", "maxMigrating": 2, "burst": 2}}
    pods = [replica(f"of-{owner}", owner=owner) for owner in ("one", "two", "three")]
    bare = replica("bare").model_copy(update={"owners": ()})
    moving = cluster(
        policy_text(objectLimiters=limiter, evictAllBarePods=True),
        *((pod, "node-1") for pod in (*pods, bare)),
    )
    assert [moving.propose(f"of-{owner}") for owner in ("one", "two")] == [None, None]
    assert (
        moving.propose("of-three")
        == moving.propose("bare")
        == (
            "namespace default has reached objectLimiters.namespace: 2 left, 2 migrations come first"
        )
    )


def test_a_budget_is_respected_within_a_batch_and_restored_by_a_refusal() -> None:
    moving = three(policy_text(defaultJobMode="EvictDirectly"))
    moving.say(budget(1))
    assert moving.propose("a") is None
    assert moving.propose("b") == (
        "disruption budget default/web allows 1 more, and 1 migration waits for it"
    )
    moving.later()
    assert moving.propose("b") == (
        "disruption budget default/web allows 1 disruption (3 of 3 pods are healthy, 2 must be); "
        "eviction commands use 1"
    )
    moving.say(evicted(moving.commands[0], "refused"))
    moving.say(budget(2))
    assert moving.propose("b") is None


def test_an_expired_command_of_a_paused_migration_releases_its_budget() -> None:
    moving = three(policy_text(defaultJobMode="EvictDirectly"))
    moving.say(budget(1), ask("migrate", pod=replica("a"), ttl_ms=60_000))
    moving.later()
    moving.say(ask("pause", pod=replica("a")))
    assert "eviction commands use 1" in str(moving.propose("b"))
    moving.later(60)
    assert moving.row("a").paused
    assert moving.propose("b") is None


def test_a_pod_with_two_budgets_is_not_evicted() -> None:
    moving = three(policy_text())
    moving.say(budget(5), budget(5, name="other"))
    assert moving.propose("a") == (
        "2 disruption budgets select the pod (other, web); Kubernetes evicts no pod that has more "
        "than one"
    )
    moving.say(budget(5, name="other", removed=True))
    assert moving.propose("a") is None


def test_pods_of_other_schedulers_stay_or_are_evicted_directly() -> None:
    other = replica("a", scheduler="default-scheduler")
    moving = cluster(policy_text(), (other, "node-1"))
    assert moving.propose("a") == (
        "the pod's scheduler default-scheduler is not among migration.schedulerNames "
        "(loadstream, koord-scheduler); otherSchedulers is refuse"
    )
    moving = cluster(policy_text("otherSchedulers: evictDirectly"), (other, "node-1"))
    assert moving.propose("a") is None
    assert moving.row("a").mode == "EvictDirectly"


def test_no_room_is_reserved_for_a_pod_with_unsupported_requirements() -> None:
    zonal = replica("a", unsupported=("topology spread",))
    moving = cluster(policy_text(), (zonal, "node-1"))
    why = (
        "the pod requires topology spread, which loadstream does not evaluate, so no room can be reserved "
        "for a replacement; mode EvictDirectly needs none"
    )
    assert moving.propose("a") == why
    moving.say(ask("migrate", pod=zonal))
    assert moving.last == ("Failed", "FailedCreateReservation")
    assert moving.reports[-1].message == why
    moving.say(ask("drain", node="node-1"))
    assert [each.reason for each in moving.drains[-1].protected] == [why]
    moving.say(ask("drain", node="node-1", mode="EvictDirectly"))
    assert moving.drains[-1].pods_left == 1
    moving.later()
    assert moving.row("a").mode == "EvictDirectly"
    assert [each.pod.uid for each in moving.commands] == ["a"]


def test_a_migration_fails_when_its_pod_gets_unsupported_requirements() -> None:
    pod = replica("a")
    moving = cluster(policy_text(), (pod, "node-1"))
    assert moving.propose("a") is None
    changed = pod.model_copy(update={"unsupported": ("topology spread",)})
    moving.say(lifecycle("changed", changed, "node-1"))
    moving.later()
    assert moving.last == ("Failed", "FailedCreateReservation")
    assert [each.reason for each in moving.reports[-1].conditions] == ["FailedCreateReservation"]
    assert moving.commands == []


def test_maintenance_windows_delay_proposals_and_commands() -> None:
    # The tests' log begins on 2025-10-09, a Thursday, at 08:53:20 UTC.
    window = "maintenance: {windows: [{days: [thu], from: '09:00', to: '10:00'}]}"
    moving = cluster(policy_text(window), (replica("a"), "node-1"))
    assert moving.propose("a") == (
        "outside of the maintenance windows of the policy (thu 09:00 to 10:00 +00:00); opens in "
        "6m39s"
    )
    moving.later(400)
    assert moving.propose("a") is None
    moving.later()
    assert len(moving.commands) == 1


def test_node_selector_pod_age_and_node_fit_are_checked() -> None:
    moving = cluster(policy_text(nodeSelector="pool=web"), (replica("a"), "node-1"))
    assert moving.propose("a") == "node node-1 does not match migration.nodeSelector"
    moving.say(node("node-1", labels={"pool": "web"}))
    assert moving.propose("a") is None

    young = replica("a", created_at_ms=at(0))
    moving = cluster(policy_text("evictor: {minPodAge: 1m}"), (young, "node-1"))
    assert moving.propose("a") == "the pod is 1s old; minPodAge is 1m"
    moving.later(59)
    assert moving.propose("a") is None
    moving = cluster(
        policy_text("evictor: {minPodAge: 1m}"), (replica("a", created_at_ms=at(60)), "node-1")
    )
    assert moving.propose("a") == "the pod is 0s old; minPodAge is 1m"

    big = replica("a", cpu="8")
    moving = cluster(policy_text(nodeFit=True), (big, "node-1"), (replica("b"), "node-2"), nodes=2)
    assert moving.propose("a") == "no other node accepts the pod; nodeFit is true"


def test_required_replicas_and_budgets_are_checked() -> None:
    moving = three(policy_text("evictor: {minReplicas: 5}"))
    assert moving.propose("a") == (
        "ReplicaSet default/web with 4 replicas (inferred from the pods seen); minReplicas is 5"
    )
    moving = three(policy_text("evictor: {ignorePodsWithoutPDB: true}"))
    assert moving.propose("a") == "no disruption budget covers the pod"
    document = "evictor: {podProtections: {extraEnabled: [PodsWithPDBBlockingSingleReplicaOwner]}}"
    moving = cluster(policy_text(document), (replica("a"), "node-1"))
    moving.say(budget(0))
    assert moving.propose("a") == (
        "ReplicaSet default/web with 1 replica (inferred from the pods seen) is covered by a "
        "disruption budget that allows no eviction"
    )
