"""Values at limits and one beyond, in a message that is otherwise like any other.

Each is put into a valid payload in its own place: broken records find most faults of readers, these
find faults of what comes after reading.
"""

from random import Random

from tests.fuzz.world import Payload

INT64_MAX = 2**63 - 1
_TIMES = (946_684_800_000, 4_102_444_800_000, 946_684_799_999, 4_102_444_800_001)
_QUANTITIES = (
    "9223372036854775807",
    "9223372036854775807m",
    "8Ei",
    "7999999999999999999",
    "1e18",
    "1E",
    "0.000000001",
    "1n",
    "0",
    "+5",
)
_TEXTS = (
    "",
    "x" * 253,
    "x" * 254,
    'quo"te\\' * 20,
    "ünïcödé\U0001f600",
    "\u2028\u202e\x9b31m",
    "a/b/c",
)


def metric(random: Random, payload: Payload) -> Payload:
    """A metric at a limit."""
    most = {"cpu": INT64_MAX, "memory": INT64_MAX}
    match random.randint(0, 9):
        case 0:
            return {**payload, "usage": most}
        case 1:
            return {**payload, "usage": {}}
        case 2:
            return {**payload, "usage": None, "pods": []}
        case 3:
            many = random.choice((64, 65))
            return {**payload, "usage": {f"example.com/r{n}": 1 for n in range(many)}}
        case 4:
            return {**payload, "pods": [{**pod, "usage": most} for pod in payload["pods"]]}
        case 5:
            return {**payload, "system_usage": most}
        case 6:
            return {**payload, "updated_at_ms": random.choice((*_TIMES, None))}
        case 7:
            entry = {"duration_ms": random.choice((0, 300_000)), "usage": {"p95": most, "p50": {}}}
            return {**payload, "aggregated": [entry] * random.choice((1, 64, 65))}
        case 8:
            pod = {"namespace": "default", "name": "p", "usage": {"cpu": INT64_MAX}}
            many = random.choice((10, 10, 2_000, 2_001))
            return {**payload, "pods": [{**pod, "name": f"p{n}"} for n in range(many)]}
    return {**payload, "removed": True}


def node(random: Random, payload: Payload) -> Payload:
    """A node at a limit."""
    match random.randint(0, 6):
        case 0:
            amount = random.choice(_QUANTITIES)
            return {**payload, "allocatable": {"cpu": amount, "memory": amount, "pods": amount}}
        case 1:
            return {**payload, "allocatable": {}}
        case 2:
            many = random.choice((1_024, 1_025))
            return {**payload, "labels": {f"l{n}": random.choice(_TEXTS) for n in range(many)}}
        case 3:
            return {**payload, "annotations": {"a": '"' * random.choice((20_000, 262_144))}}
        case 4:
            taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
            many = random.choice((256, 257))
            return {**payload, "taints": [{**taint, "key": f"k{n}"} for n in range(many)]}
        case 5:
            text = '{"usageThresholds": {"cpu": 9223372036854775807}}'
            return {**payload, "annotations": {"scheduling.koordinator.sh/usage-thresholds": text}}
    return {**payload, "node": random.choice(_TEXTS)}


def pod(random: Random, payload: Payload) -> Payload:
    """A pod at a limit."""
    amount = random.choice(_QUANTITIES)
    container = {"requests": {"cpu": amount, "memory": amount}, "limits": {"cpu": amount}}
    match random.randint(0, 9):
        case 0:
            return {**payload, "containers": [container] * random.choice((1, 2, 40))}
        case 1:
            return {**payload, "containers": []}
        case 2:
            return {**payload, "priority": random.choice((-(2**31), 2**31 - 1))}
        case 3:
            term = {"key": "zone", "operator": "NotIn", "values": [f"z{n}" for n in range(200)]}
            terms = [{"match_expressions": [term] * 8}] * random.choice((1, 20))
            return {**payload, "required_node_affinity": terms}
        case 4:
            return {**payload, "labels": {random.choice(_TEXTS): random.choice(_TEXTS)}}
        case 5:
            return {**payload, "annotations": {"a": '"\\' * random.choice((1_000, 100_000))}}
        case 6:
            return {**payload, "uid": random.choice(("u" * 128, "u" * 129, 'a/b"c\\ü'))}
        case 7:
            return {**payload, "required_node_affinity": []}
        case 8:
            odd = {f"example.com/r{n}": "1" for n in range(random.choice((64, 65)))}
            return {**payload, "containers": [{"requests": odd}]}
    names = ("created_at_ms", "scheduled_at_ms", "initialized_at_ms", "deleting_at_ms")
    return {**payload, random.choice(names): random.choice(_TIMES)}


def usage(random: Random, payload: Payload) -> Payload:
    """A usage sample at a limit."""
    most = {"cpu": INT64_MAX, "memory": INT64_MAX}
    match random.randint(0, 8):
        case 0:
            return {**payload, "usage": most}
        case 1:
            return {**payload, "usage": {}}
        case 2:
            many = random.choice((32, 33, 64, 65))
            return {**payload, "usage": {f"example.com/r{n}": 1 for n in range(many)}}
        case 3:
            return {**payload, "pods": [{**each, "usage": most} for each in payload["pods"]]}
        case 4:
            return {**payload, "system_usage": random.choice((most, {}))}
        case 5:
            return {**payload, "sampled_at_ms": random.choice(_TIMES)}
        case 6:
            return {**payload, "interval_ms": random.choice((0, 315_576_000_000, 315_576_000_001))}
        case 7:
            one = {"namespace": "default", "usage": {"cpu": 1}}
            many = random.choice((200, 200, 2_000, 2_001))
            pods = [{**one, "name": f"p{n}", "uid": f"u{n}"} for n in range(many)]
            return {**payload, "pods": pods}
    return {**payload, "pool": random.choice(_TEXTS)}
