"""Events that must not do harm: records at a limit, broken records, and records that are not true.

Values at a limit are put into a message that is otherwise valid; they find faults of what comes
after reading. Broken records find faults of the readers. A broken record may still be valid.
"""

import json
from random import Random
from typing import Any

import orjson

from schemas.topics.catalog import CLUSTER_INPUTS
from streams.stage.records import InputRecord
from tests.histories.log import Log, find_name
from tests.histories.policies import INVALID_POLICIES
from tests.histories.valid_events import Apply, write, write_policy
from tests.histories.world import Payload, World, draw_cluster_name, draw_node
from tests.strategies import places_in

INPUTS = ("node-usage", *CLUSTER_INPUTS)
INT64_MAX = 2**63 - 1
_MOST = {"cpu": INT64_MAX, "memory": INT64_MAX}
_TIMES = (946_684_800_000, 4_102_444_800_000, 946_684_799_999, 4_102_444_800_001)
_QUANTITIES = ("9223372036854775807", "9223372036854775807m", "8Ei", "7999999999999999999", "1e18",
               "1E", "0.000000001", "1n", "0", "+5")  # fmt: skip
_TEXTS = (
    "",
    "x" * 253,
    "x" * 254,
    'quo"te\\' * 20,
    "ünïcödé\U0001f600",
    "\u2028\u202e\x9b31m",
    "a/b/c",
)
#: Values that replace others.
_ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**53, INT64_MAX, 2**63, 10**30, 0.5, 1e308, *_TIMES, "", "0", "-1",
    "9223372036854775807Ei", "1e400", "\x00", "\ud7ff\uffff", '"' * 40, "\\" * 40,
    "\u202e\u0085\x9b31m", "x" * 254, "ü" * 513, [], {}, [[]], {"": None}, ["x"] * 300,
)  # fmt: skip
_BYTES = (
    b"", b"{", b"[" * 5_000, b'{"a":' * 300, b"null", b"1", b'"\xff\xfe"', b"\xef\xbb\xbf{}",
    b'{"schema_version": 2}', b'{"schema_version": true}', b'{"cluster": "\\ud800"}',
    b'{"kind": "list-begin", "kind": "list-end"}', b"\x00" * 64, b"\x00\x00\x00\x00\x01avro",
)  # fmt: skip
#: Broken and repeated records are made of one of so many newest records of a topic.
_RECENT = 40


# --- values at a limit --------------------------------------------------------------------------------

_POD_USAGE = {"namespace": "default", "usage": {"cpu": INT64_MAX}}
_TAINT = {"value": "v", "effect": "NoSchedule"}
_TERM = {"key": "zone", "operator": "NotIn", "values": [f"z{n}" for n in range(200)]}
_CONTAINERS = [
    {"requests": {"cpu": amount, "memory": amount}, "limits": {"cpu": amount}}
    for amount in _QUANTITIES
]

#: Values of a pod, a node, a metric and a usage sample that are at a limit or just beyond it.
_POD_EXTREMES: tuple[Payload, ...] = (
    *({"containers": [container] * many} for container in _CONTAINERS for many in (1, 2, 40)),
    *({"priority": priority} for priority in (-(2**31), 2**31 - 1)),
    *({"required_node_affinity": [{"match_expressions": [_TERM] * 8}] * many} for many in (0, 1, 20)),
    *({"labels": {text: text}} for text in _TEXTS),
    *({"annotations": {"a": '"\\' * many}} for many in (1_000, 100_000)),
    *({"uid": uid} for uid in ("u" * 128, "u" * 129, 'a/b"c\\ü')),
    *({"containers": [{"requests": {f"example.com/r{n}": "1" for n in range(many)}}]} for many in (64, 65)),
    *({name: time} for name in ("created_at_ms", "scheduled_at_ms", "deleting_at_ms") for time in _TIMES),
    {"containers": []},
)  # fmt: skip
_NODE_EXTREMES: tuple[Payload, ...] = (
    *({"allocatable": {"cpu": amount, "memory": amount, "pods": amount}} for amount in _QUANTITIES),
    *({"labels": {f"l{n}": "x" for n in range(many)}} for many in (1_024, 1_025)),
    *({"annotations": {"a": '"' * many}} for many in (20_000, 262_144)),
    *({"taints": [_TAINT | {"key": f"k{n}"} for n in range(many)]} for many in (256, 257)),
    *({"node": text} for text in _TEXTS),
    {"allocatable": {}},
    {"annotations": {"scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds": {"cpu": 9223372036854775807}}'}},
)  # fmt: skip
_USAGE_EXTREMES: tuple[Payload, ...] = (
    *({"usage": {f"example.com/r{n}": 1 for n in range(many)}} for many in (32, 33, 64, 65)),
    *({"system_usage": usage} for usage in (_MOST, {})),
    {"usage": _MOST},
    {"usage": {}},
)  # fmt: skip
_METRIC_EXTREMES: tuple[Payload, ...] = (
    *_USAGE_EXTREMES,
    *({"pods": [_POD_USAGE | {"name": f"p{n}"} for n in range(many)]} for many in (10, 2_000, 2_001)),
    *({"updated_at_ms": time} for time in (*_TIMES, None)),
    *({"aggregated": [{"duration_ms": 300_000, "usage": {"p95": _MOST, "p50": {}}}] * many} for many in (1, 64, 65)),
    {"usage": None, "pods": []},
    {"removed": True},
)  # fmt: skip
_SAMPLE_EXTREMES: tuple[Payload, ...] = (
    *_USAGE_EXTREMES,
    *(
        {"pods": [_POD_USAGE | {"name": f"p{n}", "uid": f"u{n}"} for n in range(many)]}
        for many in (200, 2_000, 2_001)
    ),
    *({"sampled_at_ms": time} for time in _TIMES),
    *({"interval_ms": time} for time in (0, 315_576_000_000, 315_576_000_001)),
    *({"pool": text} for text in _TEXTS),
)


def _write_extreme(world: World, log: Log, random: Random) -> None:
    node = random.choice([*world.nodes, "n-new"])
    pod = world.create_pod(random)
    del world.pods[pod["uid"]]
    pod |= random.choice(_POD_EXTREMES)
    match random.choice(("metric", "node", "request", "pod", "sample", "late sample")):
        case "metric":
            metric = world.draw_metric(random, node) | random.choice(_METRIC_EXTREMES)
            write(log, world, "node-metrics", metric)
        case "node":
            state = world.head(kind="node", event="changed", node=node) | draw_node(random)
            write(log, world, "node-state", state | random.choice(_NODE_EXTREMES))
        case "request":
            write(log, world, "scheduling-requests", world.describe_request(pod))
        case "pod":
            pod |= {"node": node, "phase": "Running"}
            write(log, world, "pod-lifecycle", world.describe_pod(pod, "running"))
        case "sample":
            sample = world.draw_sample(random, node) | random.choice(_SAMPLE_EXTREMES)
            write(log, world, "node-usage", sample)
        case _:
            time_ms = world.now_ms - random.randint(0, 400_000)
            sample = world.draw_sample(random, node) | {"sampled_at_ms": time_ms}
            write(log, world, "node-usage", sample)


# --- broken records -----------------------------------------------------------------------------------


def _draw_recent(log: Log, random: Random) -> InputRecord | None:
    newest = log.get_newest(random.choice(INPUTS))
    if newest is None:
        return None
    return log.get(newest.topic, max(0, newest.offset - random.randrange(_RECENT)))


def _write_broken(world: World, log: Log, random: Random) -> None:
    record = _draw_recent(log, random)
    if record is None:
        return
    topic, key, value = record.topic, record.key, record.value
    match random.choices(
        ("json", "bytes", "key", "topic", "tombstone", "other"), (8, 4, 3, 2, 1, 2)
    )[0]:
        case "json":
            value = _break_json(random, value or b"")
        case "bytes":
            value = _break_bytes(random, value or b"")
        case "key":
            key = random.choice(
                (
                    None,
                    b"",
                    b"\xff\xfe",
                    b"other",
                    b"0",
                    b"k" * 2_049,
                    (key or b"") + b"/",
                    b"a/b/c",
                )
            )
        case "topic":
            topic = random.choice(INPUTS)
        case "tombstone":
            value = None
        case _:
            value = random.choice(_BYTES)
    time_ms = random.choice((world.now_ms, world.now_ms, -1, INT64_MAX))
    log.append(topic, key, value, world.now_ms if topic == "clock" else time_ms)


def _break_bytes(random: Random, value: bytes) -> bytes:
    begin, end = sorted((random.randint(0, len(value)), random.randint(0, len(value))))
    return random.choice(
        (
            value[:begin],
            value[:begin] + value[end:],
            value[:end] + value[begin:],
            value[:begin] + random.randbytes(random.randint(1, 4)) + value[begin + 1 :],
            value.replace(b"{", b'{"cluster":"twice","node":"twice",', 1),
            value + b" " * random.choice((1, 10_000)) + random.choice((b"", b"{}")),
        )
    )


def _break_json(random: Random, value: bytes) -> bytes:
    try:
        payload = orjson.loads(value)
    except ValueError:
        return _break_bytes(random, value)
    places = list(places_in(payload))
    if not places:
        return json.dumps(random.choice(_ODD)).encode()
    *path, last = random.choice(places)
    parent = payload
    for step in path:
        parent = parent[step]
    how = random.random()
    if how < 0.6:
        parent[last] = random.choice(_ODD)
    elif how < 0.8:
        del parent[last]
    elif isinstance(parent, dict):
        parent[random.choice(("", "x", "cluster", "node", "list_id"))] = parent.pop(last)
    else:
        parent.extend([parent[last]] * random.choice((1, 2, 300)))
    return json.dumps(payload).encode()


# --- records that are not true ------------------------------------------------------------------------


def _repeat_old_record(world: World, log: Log, random: Random) -> None:
    record = _draw_recent(log, random)
    if record is not None:
        log.append(record.topic, record.key, record.value, world.now_ms)


def _write_for_unknown_cluster(world: World, log: Log, random: Random) -> None:
    stranger = World(draw_cluster_name(random))
    stranger.now_ms = world.now_ms
    stranger.add_node(random)
    node = next(iter(stranger.nodes))
    write(log, stranger, "node-metrics", stranger.draw_metric(random, node))
    prefix = f"{world.cluster}/unknown"
    name = find_name(prefix).removeprefix(f"{world.cluster}/")
    write(log, world, "node-usage", world.draw_sample(random, name))


def _write_wrong_time(world: World, log: Log, random: Random) -> None:
    now_ms = world.now_ms + random.choice((-3_600_000, -5_000, -1, 9_000, 60_000, 86_400_000))
    payload = {"schema_version": 1, "partition": 1, "now_ms": now_ms}
    log.append("clock", b"1", orjson.dumps(payload), world.now_ms)


def _move_pod_by_report(world: World, log: Log, random: Random) -> None:
    """Report a pod on a node where it is not."""
    pods = world.bound_pods()
    if pods and world.nodes:
        pod = random.choice(pods) | {"node": random.choice([*world.nodes, "n-unknown"])}
        write(log, world, "pod-lifecycle", world.describe_pod(pod, "running"))


def _send_incomplete_list(world: World, log: Log, random: Random) -> None:
    """Send a full list that lacks objects, and sometimes has no end."""
    topic = random.choice(("node-state", "pod-lifecycle"))
    list_id = f"incomplete-{random.getrandbits(32)}"
    write(log, world, topic, world.head(kind="list-begin", list_id=list_id))
    items: list[Payload] = [world.describe_node(name) for name in world.nodes]
    if topic == "pod-lifecycle":
        items = [world.describe_pod(pod, "seen") for pod in world.pods.values()]
    for item in items:
        if random.random() < 0.8:
            write(log, world, topic, item | {"list_id": list_id})
    if random.random() < 0.7:
        write(log, world, topic, world.head(kind="list-end", list_id=list_id))


def _write_invalid_policy(world: World, log: Log, random: Random) -> None:
    write_policy(world, log, random.choice(INVALID_POLICIES))


EVENTS: dict[str, tuple[float, Apply]] = {
    "a value is at a limit": (5, _write_extreme),
    "a record is broken": (6, _write_broken),
    "an old record is written again": (2, _repeat_old_record),
    "an unknown cluster or node writes": (0.3, _write_for_unknown_cluster),
    "a clock is wrong": (0.7, _write_wrong_time),
    "a pod is reported on another node": (0.7, _move_pod_by_report),
    "a full list is incomplete": (0.5, _send_incomplete_list),
    "a policy is invalid": (0.3, _write_invalid_policy),
}
