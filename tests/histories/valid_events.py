"""Events that a real cluster and its users cause: each changes the world or writes a valid record.

`EVENTS` names each event and says how often it is drawn, compared with the others.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import orjson

from tests.histories.log import Log
from tests.histories.policies import draw_policy
from tests.histories.world import Payload, World

Apply = Callable[[World, Log, Random], None]


def write(log: Log, world: World, topic: str, payload: Payload) -> None:
    """Write a message of the cluster under its key."""
    key = world.cluster
    if topic == "node-usage":
        key += f"/{payload['node']}"
    log.append(topic, key.encode(), orjson.dumps(payload), world.now_ms)


# --- pods -------------------------------------------------------------------------------------------


def _ask_for_node(world: World, log: Log, random: Random) -> None:
    for _ in range(random.choice((1, 1, 1, 3))):
        pod = world.create_pod(random)
        if random.random() < 0.3:
            world.report("pod-lifecycle", world.describe_pod(pod, "seen"))
        world.ask(pod)


def _withdraw_request(world: World, log: Log, random: Random) -> None:
    if world.waiting_pods:
        world.withdraw(random.choice(list(world.waiting_pods)))


def _start_pod_elsewhere(world: World, log: Log, random: Random) -> None:
    """Another scheduler starts a pod, which may be one that waits for our decision."""
    pod = world.create_pod(random)
    if world.waiting_pods and random.random() < 0.1:
        pod = random.choice(list(world.waiting_pods.values()))
    nodes = [node for node in world.nodes if world.has_room(pod, node)]
    if nodes:
        event = random.choice(("seen", "bound", "running"))
        world.start_pod(random, pod, random.choice(nodes), event)


def _change_pod(world: World, log: Log, random: Random) -> None:
    pods = world.bound_pods()
    if not pods:
        return
    pod = random.choice(pods)
    match random.randint(0, 4):
        case 0 if world.owners:
            world.give_owner(random, pod, random.choice(list(world.owners.values())))
        case 1:
            pod["ready"] = random.random() < 0.8
        case 2:
            pod["initialized_at_ms"] = world.now_ms
        case 3:
            pod["labels"] = {"app": random.choice(("web", "db", "none"))}
        case 4 if random.random() < 0.2:
            pod["deleting_at_ms"] = world.now_ms
    event = random.choice(("seen", "changed", "running", "bound", "initialised"))
    world.report("pod-lifecycle", world.describe_pod(pod, event))


def _end_pod(world: World, log: Log, random: Random) -> None:
    if world.pods:
        event = random.choice(("deleted", "deleted", "finished"))
        world.end_pod(random.choice(list(world.pods)), event)


# --- nodes, usage -----------------------------------------------------------------------------------


def _add_node(world: World, log: Log, random: Random) -> None:
    if len(world.nodes) < 10:
        world.add_node(random)


def _change_node(world: World, log: Log, random: Random) -> None:
    if world.nodes:
        world.change_node(random, random.choice(list(world.nodes)))


def _remove_node(world: World, log: Log, random: Random) -> None:
    if len(world.nodes) > 2:
        world.remove_node(random, random.choice(list(world.nodes)))


def _change_heat(world: World, log: Log, random: Random) -> None:
    if world.hot and random.random() < 0.4:
        world.hot.discard(random.choice(sorted(world.hot)))
    elif world.nodes:
        world.hot.add(random.choice(list(world.nodes)))


def _write_metric(world: World, log: Log, random: Random) -> None:
    """Another system than our aggregate stage writes metrics of all nodes or of one."""
    nodes = list(world.nodes)
    for node in nodes if random.random() < 0.3 else nodes[:1]:
        write(log, world, "node-metrics", world.draw_metric(random, node))


# --- owners, budgets, namespaces ----------------------------------------------------------------------


def _change_owner(world: World, log: Log, random: Random) -> None:
    if not world.owners or random.random() < 0.2:
        world.add_owner(random)
    owner = random.choice(list(world.owners.values()))
    owner["replicas"] = random.choice((0, 1, 3, 8, 12, 20))
    removed = random.random() < 0.05
    world.report("pod-lifecycle", world.describe_owner(owner, removed=removed))


def _change_budget(world: World, log: Log, random: Random) -> None:
    others = (world.draw_namespace, world.draw_priority_class)
    draw = random.choice((*[world.draw_budget] * 6, *others))
    world.report("pod-lifecycle", draw(random) | {"removed": random.random() < 0.3})


# --- users ------------------------------------------------------------------------------------------


def write_policy(world: World, log: Log, document: str, *, paused: bool = False) -> None:
    world.policy = document
    payload = world.head(document=document, applied_at_ms=world.now_ms, paused=paused)
    write(log, world, "policies", payload)


def _change_policy(world: World, log: Log, random: Random) -> None:
    write_policy(world, log, draw_policy(random))


def _pause_or_resume(world: World, log: Log, random: Random) -> None:
    write_policy(world, log, world.policy, paused=random.random() < 0.4)


def _request_migrations(world: World, log: Log, random: Random) -> None:
    for _ in range(random.choice((1, 2, 5))):
        _request_migration(world, log, random)


def _request_migration(world: World, log: Log, random: Random) -> None:
    actions = (*["migrate"] * 4, "pause", "resume", "abort", "drain", "undrain")
    action = random.choice(actions)
    payload: dict[str, Any] = world.head(
        action=action,
        request_id=f"request-{random.getrandbits(64)}",
        requested_at_ms=world.now_ms,
        ignore_windows=random.random() < 0.2,
    )
    pods = world.bound_pods()
    if action in ("drain", "undrain"):
        payload["node"] = random.choice([*world.nodes, "n-unknown"])
    elif pods:
        pod = random.choice(pods)
        payload["pod"] = {name: pod[name] for name in ("namespace", "name", "uid")}
    else:
        return
    if random.random() < 0.2:
        payload["ttl_ms"] = random.choice((1, 5_000, 86_400_000))
        payload["mode"] = random.choice(("ReservationFirst", "EvictDirectly"))
    write(log, world, "migration-requests", payload)


#: Share and function of each event. "time passes" is applied by `run`.
EVENTS: dict[str, tuple[float, Apply]] = {
    "a pod asks for a node": (6, _ask_for_node),
    "a request is withdrawn": (1, _withdraw_request),
    "another scheduler starts a pod": (4, _start_pod_elsewhere),
    "a pod changes": (8, _change_pod),
    "a pod ends": (5, _end_pod),
    "a node joins": (1, _add_node),
    "a node changes": (2, _change_node),
    "a node is removed": (0.7, _remove_node),
    "a node heats up or cools down": (3, _change_heat),
    "another system writes metrics": (2, _write_metric),
    "an owner changes": (2, _change_owner),
    "a budget or a namespace changes": (4, _change_budget),
    "the policy changes": (0.6, _change_policy),
    "the cluster is paused or resumed": (0.4, _pause_or_resume),
    "a user asks for migrations": (6, _request_migrations),
}
