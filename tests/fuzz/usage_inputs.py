"""Random histories of the aggregate stage: what producers of usage samples write.

A few nodes send samples mostly in order and now and then late, twice, from a clock that is wrong,
with other resources or other pods; among them are samples at limits, broken ones, and those of
strangers.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random
from typing import Any

import orjson

from schemas.topics.partitions import partition_for
from streams.stage.records import InputRecord
from tests.fuzz import borderline
from tests.fuzz.broken import broken, misplaced_key
from tests.fuzz.history import Cut, Step
from tests.fuzz.world import PARTITION, PARTITIONS, START_MS, Payload

_RECENT = 200
_SHARES: dict[str, float] = {
    "next": 60,
    "late": 5,
    "jump": 1,
    "set_back": 0.3,
    "borderline": 6,
    "broken": 8,
    "again": 5,
    "stranger": 0.5,
}
_AMOUNTS = (0, 1, 250, 3_000, 2**40, 2**62, 2**63 - 1)
_RESOURCES = ("cpu", "cpu", "cpu", "memory", "memory", "example.com/gpu", "disk", 'qu"ote')


class UsageInputs:
    """Makes the records of one history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"aggregate {seed}")
        random = self.random
        self._cluster = random.choice(("c", "west", "größe", 'qu"ote\\'))
        self._clocks = {self._name(): START_MS for _ in range(random.choice((1, 3, 8)))}
        """Time of each node's newest sample."""
        self._pods: dict[str, list[Payload]] = {name: [] for name in self._clocks}
        self._made = 0
        self._end = 0
        self._recent: deque[InputRecord] = deque(maxlen=_RECENT)
        self._what = list(_SHARES)
        self._shares = [each * random.choice((0.3, 1, 1, 2)) for each in _SHARES.values()]
        self._step_s = random.choice((1, 5, 30))
        self._restarts = random.choice((0.002, 0.01, 0.03))
        self._batches = random.choice((0.05, 0.3, 0.9))

    def steps(self, records: int) -> Iterator[Step]:
        """The history."""
        return islice(self._endless(), records)

    def hear(self, messages: Sequence[Any]) -> None:
        """Metrics are not answered."""

    def _endless(self) -> Iterator[Step]:
        while True:
            what = self.random.choices(self._what, self._shares)[0]
            happens: Callable[[str], Step | None] = getattr(self, f"_{what}")
            step = happens(self.random.choice(list(self._clocks)))
            if step is not None:
                yield step

    def _name(self) -> str:
        """A node whose samples belong to the partition."""
        while True:
            name = f"n{self.random.randint(0, 10_000)}"
            if partition_for(f"{self._cluster}/{name}".encode(), PARTITIONS) == PARTITION:
                return name

    # --- what happens -----------------------------------------------------------------------------

    def _next(self, node: str) -> Step:
        self._clocks[node] += self.random.randint(1, self._step_s) * 1_000
        return self._sample(node, self._clocks[node])

    def _late(self, node: str) -> Step:
        return self._sample(node, self._clocks[node] - self.random.randint(0, 400) * 1_000)

    def _jump(self, node: str) -> Step:
        """Nothing was heard of the node, or of any, for a while."""
        ahead_ms = self.random.choice((130, 300, 3_600, 86_400)) * 1_000
        for each in self._clocks if self.random.random() < 0.5 else (node,):
            self._clocks[each] += ahead_ms
        return self._next(node)

    def _set_back(self, node: str) -> Step:
        """The node's clock was ahead."""
        self._clocks[node] -= self.random.choice((60, 3_600)) * 1_000
        return self._next(node)

    def _borderline(self, node: str) -> Step:
        payload = borderline.usage(self.random, self._payload(node, self._clocks[node] + 500))
        return self._step(node, payload)

    def _broken(self, node: str) -> Step | None:
        if not self._recent:
            return None
        old = self.random.choice(self._recent)
        if self.random.random() < 0.2:
            return self._raw(misplaced_key(self.random, old.key), old.value, old.timestamp_ms)
        value = broken(self.random, old.value or b"")
        return self._raw(old.key, value, self.random.choice((old.timestamp_ms, -1, 2**63 - 1)))

    def _again(self, node: str) -> Step | None:
        if not self._recent:
            return None
        old = self.random.choice(self._recent)
        if self.random.random() < 0.5:
            return Step(old, self._cut())
        return self._raw(old.key, old.value, old.timestamp_ms)

    def _stranger(self, node: str) -> Step:
        return self._sample(self._name(), self._clocks[node])

    # --- records --------------------------------------------------------------------------------

    def _usage(self) -> dict[str, int]:
        names = self.random.sample(_RESOURCES, self.random.randint(1, 3))
        return {name: self.random.choice(_AMOUNTS) for name in names}

    def _payload(self, node: str, at_ms: int) -> Payload:
        random = self.random
        pods = self._pods.setdefault(node, [])
        if random.random() < 0.1 and len(pods) < 20:
            self._made += 1
            name = random.choice(("web", "db", f"p{self._made}"))
            priority = random.choice(("", "koord-prod"))
            uid = f"u{self._made}"
            pod = {"namespace": "default", "name": name, "uid": uid, "priority_class": priority}
            pods.append(pod)
        if random.random() < 0.05 and pods:
            pods.pop(random.randrange(len(pods)))
        payload: Payload = {
            "schema_version": 1,
            "cluster": self._cluster,
            "node": node,
            "sampled_at_ms": at_ms,
            "usage": self._usage(),
            "pods": [{**pod, "usage": self._usage()} for pod in pods],
        }
        if random.random() < 0.2:
            payload["memory"] = {"usage_with_page_cache_bytes": random.choice(_AMOUNTS)}
        if random.random() < 0.2:
            shares = {f"avg{seconds}_bp": random.randint(0, 10_000) for seconds in (10, 60, 300)}
            payload["pressure"] = {random.choice(("cpu", "memory", "io")): {"some": shares}}
        if random.random() < 0.2:
            payload["source"] = random.choice(("kubelet", "agent"))
        if random.random() < 0.2:
            payload["system_usage"] = self._usage()
        if random.random() < 0.2:
            payload["pool"] = random.choice(("slow", "none"))
        if random.random() < 0.2:
            payload["host_applications"] = [{"name": "agent", "usage": self._usage()}]
        return payload

    def _sample(self, node: str, at_ms: int) -> Step:
        return self._step(node, self._payload(node, at_ms))

    def _step(self, node: str, payload: Payload) -> Step:
        key = f"{self._cluster}/{node}".encode()
        late_ms = self.random.choice((0, 0, 100, 5_000))
        step = self._raw(key, orjson.dumps(payload), payload["sampled_at_ms"] + late_ms)
        self._recent.append(step.record)
        return step

    def _raw(self, key: bytes | None, value: bytes | None, timestamp_ms: int) -> Step:
        self._end += 1 + (self.random.random() < 0.01)
        record = InputRecord("node-usage", PARTITION, self._end, key, value, timestamp_ms)
        return Step(record, self._cut())

    def _cut(self) -> Cut:
        if self.random.random() < self._restarts:
            return Cut.RESTART
        return Cut.BATCH if self.random.random() < self._batches else Cut.NONE
