"""Random histories of the cluster stage: what producers, operators, binder and evictor write.

    worlds ──▶ payloads ──▶ records ──▶ the stage ──▶ decisions and commands ──▶ outcomes ──▶ records

Records are made one at a time, since what comes next answers what the stage said before. Each seed
draws its own shares of what happens, so that histories differ in kind and not only in detail.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any

import orjson

from schemas.topics.catalog import CLUSTER_INPUTS
from streams.stage.records import InputRecord
from tests.fuzz import borderline
from tests.fuzz.broken import broken, misplaced_key
from tests.fuzz.history import Cut, Step
from tests.fuzz.outside import Outside
from tests.fuzz.policies import document
from tests.fuzz.world import PARTITION, START_MS, Payload, World, cluster_name

#: Records kept to be broken or sent again.
_RECENT = 200
#: What happens, and how often beside the others.
_SHARES: dict[str, float] = {
    "tick": 14,
    "metric": 16,
    "metrics": 2,
    "ask": 9,
    "pod_changes": 12,
    "pod_goes": 3,
    "node_changes": 3,
    "heat": 2,
    "full_list": 0.5,
    "policy": 0.4,
    "migration": 3,
    "workload": 2,
    "named": 0.5,
    "withdraw": 1,
    "borderline": 5,
    "broken": 6,
    "again": 3,
    "stranger": 0.3,
}


class ClusterInputs:
    """Makes the records of one history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"cluster {seed}")
        random = self.random
        names = {cluster_name(random) for _ in range(random.choice((1, 2, 2, 3)))}
        self._worlds = [World(random, name) for name in sorted(names)]
        self._outsides = {each.cluster: Outside(random, each) for each in self._worlds}
        self._policies = dict.fromkeys(names, "")
        self._now_ms = START_MS
        self._ends = Counter[str]()
        self._recent: deque[InputRecord] = deque(maxlen=_RECENT)
        self._lists = 0
        self._what = list(_SHARES)
        self._shares = [each * random.choice((0.3, 1, 1, 2)) for each in _SHARES.values()]
        self._restarts = random.choice((0.002, 0.01, 0.03))
        self._batches = random.choice((0.05, 0.3, 0.9))

    def steps(self, records: int) -> Iterator[Step]:
        """The history; what the stage says is handed to `hear` in between."""
        return islice(self._endless(), records)

    def hear(self, messages: Sequence[Any]) -> None:
        """The stage has said this after the record made last."""
        for message in messages:
            outside = self._outsides.get(message.cluster)
            if outside is not None:
                outside.hear(message)

    def _endless(self) -> Iterator[Step]:
        for world in self._worlds:
            yield from self._begin(world)
        while True:
            world = self.random.choice(self._worlds)
            for topic, payload in self._outsides[world.cluster].due():
                yield self._step(topic, payload)
            what = self.random.choices(self._what, self._shares)[0]
            happens: Callable[[World], Iterator[Step]] = getattr(self, f"_{what}")
            yield from happens(world)

    def _begin(self, world: World) -> Iterator[Step]:
        """Most clusters say first what there is; some begin in the middle."""
        if self.random.random() < 0.95:
            yield self._policy_record(world, document(self.random))
        if self.random.random() < 0.8:
            yield from self._nodes_list(world)
        yield from self._tick(world)

    # --- what happens -----------------------------------------------------------------------------

    def _tick(self, world: World) -> Iterator[Step]:
        steps_ms = (1_000, 1_000, 1_000, 1_000, 1_000, 2_000, 5_000, 31_000, 301_000, 0, -5_000)
        now_ms = self._now_ms + self.random.choice(steps_ms)
        if self.random.random() < 0.003:
            now_ms += self.random.choice((3_600_000, 86_400_000, 7 * 86_400_000))
        self._now_ms = max(self._now_ms, now_ms)
        for each in self._worlds:
            each.now_ms = self._now_ms
        payload = {"schema_version": 1, "partition": PARTITION, "now_ms": now_ms}
        yield self._step("clock", payload, str(PARTITION).encode())

    def _metric(self, world: World) -> Iterator[Step]:
        if world.nodes:
            name = self.random.choice(list(world.nodes))
            yield self._step("node-metrics", world.metric(name))

    def _metrics(self, world: World) -> Iterator[Step]:
        for name in world.nodes:
            yield self._step("node-metrics", world.metric(name, updated_at_ms=world.now_ms))
        yield from self._tick(world)

    def _heat(self, world: World) -> Iterator[Step]:
        hot = world.hot
        if hot and self.random.random() < 0.4:
            hot.discard(self.random.choice(sorted(hot)))
        elif world.nodes:
            hot.add(self.random.choice(list(world.nodes)))
        for _ in range(self.random.randint(1, 4)):
            yield from self._metrics(world)

    def _ask(self, world: World) -> Iterator[Step]:
        pod = world.new_pod()
        if self.random.random() < 0.3:
            yield self._step("pod-lifecycle", world.lifecycle("seen", pod))
        yield self._step("scheduling-requests", world.request(pod))

    def _withdraw(self, world: World) -> Iterator[Step]:
        if world.pods:
            pod = self.random.choice(list(world.pods.values()))
            yield self._step("scheduling-requests", world.request(pod, withdrawn=True))

    def _pod_changes(self, world: World) -> Iterator[Step]:
        random = self.random
        here = world.on_nodes()
        if not here or random.random() < 0.25:
            pod = world.new_pod()
            pod["node"] = random.choice([*world.nodes, "n-unknown"])
            pod |= {"phase": "Running", "ready": random.random() < 0.95}
        else:
            pod = random.choice(here)
            match random.randint(0, 5):
                case 0:
                    world.give_owner(pod)
                case 1:
                    pod["ready"] = random.random() < 0.8
                case 2:
                    pod["initialized_at_ms"] = world.now_ms
                case 3:
                    pod["labels"] = {"app": random.choice(("web", "db", "none"))}
                case 4 if random.random() < 0.2:
                    pod["deleting_at_ms"] = world.now_ms
                case 5 if world.nodes and random.random() < 0.2:
                    pod["node"] = random.choice(list(world.nodes))
        event = random.choice(("seen", "changed", "running", "bound", "initialised"))
        yield self._step("pod-lifecycle", world.lifecycle(event, pod))

    def _pod_goes(self, world: World) -> Iterator[Step]:
        if world.pods:
            pod = world.pods.pop(self.random.choice(list(world.pods)))
            event = self.random.choice(("deleted", "deleted", "finished"))
            yield self._step("pod-lifecycle", world.lifecycle(event, pod))

    def _node_changes(self, world: World) -> Iterator[Step]:
        how = self.random.random()
        if how < 0.2 or not world.nodes:
            node = world.add_node()
        elif how < 0.3 and len(world.nodes) > 2:
            node = {**world.nodes.pop(self.random.choice(list(world.nodes))), "event": "removed"}
        else:
            node = {**world.change_node(self.random.choice(list(world.nodes))), "event": "changed"}
        yield self._step("node-state", world.node_state(node))

    def _full_list(self, world: World) -> Iterator[Step]:
        make = self.random.choice((self._nodes_list, self._pods_list))
        yield from make(world)

    def _nodes_list(self, world: World) -> Iterator[Step]:
        nodes = list(world.nodes.values())
        yield from self._listed(world, "node-state", nodes, world.node_state)

    def _pods_list(self, world: World) -> Iterator[Step]:
        def listed(item: Payload, **fields: Any) -> Payload:
            if item.get("kind") in ("namespace", "priority-class"):
                return {**item, **fields}
            if "owner_kind" in item:
                return world.workload(item, **fields)
            return world.lifecycle("seen", item, **fields)

        items = [*world.pods.values(), *world.owners.values()]
        if self.random.random() < 0.3:
            items += [world.namespace(), world.priority_class()]
        yield from self._listed(world, "pod-lifecycle", items, listed)

    def _listed(
        self, world: World, topic: str, items: list[Payload], said: Callable[..., Payload]
    ) -> Iterator[Step]:
        """A full list, at times with gaps, with others in between, or without its end."""
        self._lists += 1
        named = {"cluster": world.cluster, "list_id": f"list-{self._lists}", "schema_version": 1}
        yield self._step(topic, {"kind": "list-begin", **named})
        complete = 1.0 if self.random.random() < 0.7 else 0.8
        for item in items:
            if self.random.random() < complete:
                yield self._step(topic, said(item, list_id=named["list_id"]))
            if self.random.random() < 0.1:
                yield from self._metric(world)
        if self.random.random() < 0.9:
            yield self._step(topic, {"kind": "list-end", **named})

    def _policy(self, world: World) -> Iterator[Step]:
        how, text = self.random.random(), self._policies[world.cluster]
        if how < 0.35:
            yield self._policy_record(world, text, paused=how < 0.15)
        else:
            self._policies[world.cluster] = document(self.random)
            yield self._policy_record(world, self._policies[world.cluster])

    def _policy_record(self, world: World, text: str, **fields: Any) -> Step:
        head = {"schema_version": 1, "cluster": world.cluster, "document": text}
        return self._step("policies", {**head, "applied_at_ms": world.now_ms, **fields})

    def _migration(self, world: World) -> Iterator[Step]:
        random = self.random
        action = random.choice(
            ("migrate", "migrate", "pause", "resume", "abort", "drain", "undrain")
        )
        payload: Payload = {"schema_version": 1, "cluster": world.cluster, "action": action}
        payload |= {"request_id": f"request-{self._ends['migration-requests']}"}
        payload |= {"requested_at_ms": world.now_ms, "ignore_windows": random.random() < 0.2}
        here = world.on_nodes()
        if action in ("drain", "undrain"):
            payload["node"] = random.choice([*world.nodes, "n-unknown"])
        elif here:
            pod = random.choice(here)
            payload["pod"] = {name: pod[name] for name in ("namespace", "name", "uid")}
        if random.random() < 0.2:
            payload["ttl_ms"] = random.choice((1, 5_000, 86_400_000))
            payload["mode"] = random.choice(("ReservationFirst", "EvictDirectly"))
        yield self._step("migration-requests", payload)

    def _workload(self, world: World) -> Iterator[Step]:
        random = self.random
        if random.random() < 0.3 or not world.owners:
            removed = random.random() < 0.4
            yield self._step("pod-lifecycle", world.budget(removed=removed))
            return
        if random.random() < 0.1:
            world.add_owner()
        owner = random.choice(list(world.owners.values()))
        owner["replicas"] = random.choice((0, 1, 3, 5, 8, 12))
        yield self._step("pod-lifecycle", world.workload(owner, removed=random.random() < 0.05))

    def _named(self, world: World) -> Iterator[Step]:
        """Namespaces and priority classes."""
        say = self.random.choice((world.namespace, world.priority_class))
        yield self._step("pod-lifecycle", say(removed=self.random.random() < 0.2))

    # --- what should not happen ---------------------------------------------------------------------

    def _borderline(self, world: World) -> Iterator[Step]:
        random = self.random
        name = random.choice([*world.nodes, "n-new"])
        match random.randint(0, 3):
            case 0:
                payload = borderline.metric(random, world.metric(name))
                yield self._step("node-metrics", payload)
            case 1 if name in world.nodes:
                payload = borderline.node(random, world.node_state(world.nodes[name]))
                yield self._step("node-state", payload)
            case 2:
                pod = borderline.pod(random, world.new_pod())
                yield self._step("scheduling-requests", world.request(pod))
            case _:
                pod = borderline.pod(random, {**world.new_pod(), "node": name, "phase": "Running"})
                yield self._step("pod-lifecycle", world.lifecycle("running", pod))

    def _broken(self, world: World) -> Iterator[Step]:
        if not self._recent:
            return
        old = self.random.choice(self._recent)
        topic, key, value = old.topic, old.key, old.value
        how = self.random.random()
        if how < 0.75:
            value = broken(self.random, old.value or b"")
        elif how < 0.9:
            key = misplaced_key(self.random, old.key)
        else:
            topic = self.random.choice(CLUSTER_INPUTS)
        yield self._raw(topic, key, value)

    def _again(self, world: World) -> Iterator[Step]:
        """Read again, or written again by a producer that did not hear of its success."""
        if not self._recent:
            return
        old = self.random.choice(self._recent)
        if self.random.random() < 0.5:
            yield Step(old, self._cut())
        else:
            yield self._raw(old.topic, old.key, old.value)

    def _stranger(self, world: World) -> Iterator[Step]:
        """A producer makes up a cluster."""
        other = World(self.random, cluster_name(self.random))
        other.now_ms = world.now_ms
        name = self.random.choice(list(other.nodes))
        yield self._step("node-metrics", other.metric(name))

    # --- records --------------------------------------------------------------------------------

    def _step(self, topic: str, payload: Payload, key: bytes | None = None) -> Step:
        value = orjson.dumps(payload)
        step = self._raw(topic, key or str(payload["cluster"]).encode(), value)
        self._recent.append(step.record)
        return step

    def _raw(self, topic: str, key: bytes | None, value: bytes | None) -> Step:
        # Compaction and transactions leave gaps.
        offset = self._ends[topic] + (self.random.random() < 0.01)
        self._ends[topic] = offset + 1
        record = InputRecord(topic, PARTITION, offset, key, value, self._now_ms)
        return Step(record, self._cut())

    def _cut(self) -> Cut:
        if self.random.random() < self._restarts:
            return Cut.RESTART
        return Cut.BATCH if self.random.random() < self._batches else Cut.NONE
