"""One worker behind a broker: throughput, latency, and recovery after kill -9.

Throughput is measured on a backlog, so the worker always has more to do than it can. The clock runs
from the first record sent to the last answer received, so it includes producing the backlog.

Latency is measured with requests at an even pace, from handing a request to the producer to receiving
its decision: two trips through the broker, and the journal's acknowledgement. A request that is handed
over late counts from the time at which it was due, so a stall of the measuring side is not hidden. That
side works in steps of `_STEP_S`, which latencies include, to leave the cores to broker and worker.

Recovery is the time from the start of a new worker, on a large cluster, to its first decision.
"""

import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import orjson

from benchmarks import messages
from benchmarks.figures import Figure, Unproven
from benchmarks.rig import (
    PATIENCE_S,
    Arrival,
    BrokerKind,
    Encoded,
    Receiver,
    Rig,
    check_decisions,
    encoded,
    rig,
    usage,
    watched,
)
from connectors.kafka.topics import changelog_name
from schemas.storage.tables import WINDOWS
from simulation.processes import Loadstream

NODES = 5_000
PODS_PER_SAMPLE = 30
#: Share of the answers at both ends that `steady` leaves out.
_EDGE = 0.1


@cache
def decisions(
    kind: BrokerKind, requests: int, pods_per_node: int, kinds: int = messages.KINDS
) -> dict[str, Any]:
    """Requests of `kinds` kinds in, decisions out; the journal's bytes are of these alone."""
    with rig(kind) as place, place.worker("cluster") as worker:
        place.describe_cluster(worker, NODES, pods_per_node=pods_per_node)
        _warm_up(place, worker)
        before = _journal_bytes(place)
        wanting = (messages.request(number, kinds) for number in range(requests))
        records = encoded("scheduling-requests", wanting)
        found, measured = _through(place, worker, records, "placement-decisions", requests)
        check_decisions(
            (each.value for each in found), {f"asking-{n}" for n in range(requests)}, NODES
        )
        measured |= {"nodes": NODES, "pods_per_node": pods_per_node, "kinds": kinds}
        measured["bytes_per_record"] = round((_journal_bytes(place) - before) / requests)
    return measured


@cache
def samples(kind: BrokerKind, nodes: int, rounds: int) -> dict[str, Any]:
    """Usage samples of 30 pods each in, node metrics out; changelog bytes are of all samples."""
    metrics = nodes * ((rounds - 1) // messages.SAMPLES_PER_METRIC)
    with rig(kind) as place, place.worker("aggregate") as worker:
        records = encoded("node-usage", messages.usage_samples(nodes, rounds, PODS_PER_SAMPLE))
        # The first round makes every node known, and shows that the worker has its partitions.
        changelog = changelog_name(WINDOWS)
        with Receiver(place.settings, [changelog]) as receiver:
            place.sender.send(records[:nodes])
            deadline = time.monotonic() + PATIENCE_S
            while not list(watched(receiver, worker)):
                if time.monotonic() > deadline:
                    raise Unproven(f"no sample was applied; {worker.describe_log()}")
        found, measured = _through(place, worker, records[nodes:], "node-metrics", metrics)
        measured |= {
            "pods_per_sample": PODS_PER_SAMPLE,
            "sample_bytes": sum(len(record.value) for record in records) // len(records),
            "metrics": len(found),
        }
        measured["bytes_per_record"] = round(place.bytes_in([changelog]) / len(records))
    return measured


def _figure(name: str, key: str, unit: str, measure: Callable[[], dict[str, Any]]) -> Figure:
    """One of the figures of a run; several figures of one run come from one run."""
    measured = measure()
    return Figure(name, measured[key], unit, measured)


def _journal_bytes(place: Rig) -> int:
    # The embedded broker forgets the journal's beginning, so a difference would mean nothing.
    return place.bytes_in(["journal"]) if place.broker_pid else 0


def _through(
    place: Rig, worker: Loadstream, records: list[Encoded], answers: str, expected: int
) -> tuple[list[Arrival], dict[str, Any]]:
    """Send all records, wait for the answers, and check that there are no more."""
    found: list[Arrival] = []
    with Receiver(place.settings, [answers, "dead-letters"]) as receiver:
        before = usage(worker.pid or 0)
        broker_before = usage(place.broker_pid).cpu_s if place.broker_pid else 0.0
        began = time.monotonic()
        producer_per_s = place.sender.send(records)
        while len(found) < expected:
            came = list(watched(receiver, worker))
            found += came
            if not came and time.monotonic() > (found[-1].at_s if found else began) + PATIENCE_S:
                raise Unproven(f"{len(found)} of {expected} came; {worker.describe_log()}")
        seconds = found[-1].at_s - began
        after = usage(worker.pid or 0)
        broker_cpu_s = usage(place.broker_pid).cpu_s - broker_before if place.broker_pid else 0.0
        found += watched(receiver, worker, wait_s=1.5)
    if len(found) != expected:
        raise Unproven(f"{len(found)} records came in {answers}; expected {expected}")
    inner = found[int(expected * _EDGE) : int(expected * (1 - _EDGE))]
    steady_s = inner[-1].at_s - inner[0].at_s
    measured: dict[str, Any] = {
        "records": len(records),
        "per_s": round(len(records) / seconds, 1),
        "seconds": round(seconds, 2),
        "steady_per_s": round(len(records) * (1 - 2 * _EDGE) / steady_s) if steady_s else None,
        "worker_cpu_us_per_record": round((after.cpu_s - before.cpu_s) / len(records) * 1e6, 1),
        "worker_cpu_share": round((after.cpu_s - before.cpu_s) / seconds, 2),
        # Others had the cores: on a machine of its own the worker would be that much faster.
        "worker_queued_share": round((after.queued_s - before.queued_s) / seconds, 2),
        "broker_cpu_us_per_record": round(broker_cpu_s / len(records) * 1e6, 1),
        "producer_per_s": round(producer_per_s),
        "worker_rss_mib": round(after.rss_mib),
    }
    return found, measured


def _warm_up(place: Rig, worker: Loadstream, requests: int = 200) -> None:
    """Some decisions before the clock starts; they are of other pods."""
    numbers = range(-requests, 0)
    records = encoded("scheduling-requests", map(messages.request, numbers))
    found, _ = _through(place, worker, records, "placement-decisions", requests)
    check_decisions((each.value for each in found), {f"asking-{n}" for n in numbers}, NODES)


_DECISIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "": partial(decisions, "kafka", 30_000, 0),
    ".loaded": partial(decisions, "kafka", 20_000, 30),
    ".kinds_64": partial(decisions, "kafka", 20_000, 30, 64),
    ".kinds_600": partial(decisions, "kafka", 20_000, 30, 600),
    # A partition of the embedded broker keeps 5 MB.
    ".embedded": partial(decisions, "embedded", 6_000, 0),
}
_SAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "": partial(samples, "kafka", 2_000, 9),
    ".embedded": partial(samples, "embedded", 700, 5),
}
_FIGURES = (
    ("decisions_per_s", "per_s", "1/s", _DECISIONS),
    ("journal_bytes_per_decision", "bytes_per_record", "B", _DECISIONS),
    ("aggregate_samples_per_s", "per_s", "1/s", _SAMPLES),
    ("changelog_bytes_per_sample", "bytes_per_record", "B", _SAMPLES),
)

_SECONDS = 15
#: Requests are handed over and decisions taken in so often, in seconds.
_STEP_S = 0.002
#: The first requests, which are not counted: rankings and connections are made then.
_WARMUP_S = 3


def latency(name: str, kind: BrokerKind, per_s: int, percentile: int) -> Figure:
    """One percentile of the time from request to decision; all percentiles are of one run."""
    measured = _measure_latency(kind, per_s)
    return Figure(name, measured[f"p{percentile}_ms"], "ms", measured)


@cache
def _measure_latency(kind: BrokerKind, per_s: int) -> dict[str, Any]:
    with rig(kind) as place, place.worker("cluster") as worker:
        place.describe_cluster(worker, NODES)
        count = per_s * (_SECONDS + _WARMUP_S)
        records = encoded("scheduling-requests", map(messages.request, range(count)))
        due: list[float] = []
        found: list[Arrival] = []
        with Receiver(place.settings, ["placement-decisions", "dead-letters"]) as receiver:
            before, bench_before_s = usage(worker.pid or 0), time.process_time()
            broker_before_s = usage(place.broker_pid).cpu_s if place.broker_pid else 0.0
            began = time.monotonic()
            while len(found) < count:
                now = time.monotonic()
                while len(due) < count and began + len(due) / per_s <= now:
                    place.sender.hand_over(records[len(due)])
                    due.append(began + len(due) / per_s)
                time.sleep(_STEP_S)
                found += watched(receiver, worker, 0.0)
                if now > due[-1] + PATIENCE_S:
                    raise Unproven(f"{len(found)} of {count} came; {worker.describe_log()}")
            after, bench_s = usage(worker.pid or 0), time.process_time() - bench_before_s
            broker_s = usage(place.broker_pid).cpu_s - broker_before_s if place.broker_pid else 0.0
            found += watched(receiver, worker, 1.0)
    check_decisions((each.value for each in found), {f"asking-{n}" for n in range(count)}, NODES)
    waited_ms = np.array([(each.at_s - due[_number(each)]) * 1000 for each in found])
    counted = waited_ms[[_number(each) >= per_s * _WARMUP_S for each in found]]
    return {
        "requests_per_s": per_s,
        "seconds": _SECONDS,
        "nodes": NODES,
        **{f"p{p}_ms": round(float(np.percentile(counted, p)), 2) for p in (50, 90, 99)},
        "max_ms": round(float(counted.max()), 2),
        "worker_cpu_share": round((after.cpu_s - before.cpu_s) / (_SECONDS + _WARMUP_S), 2),
        "worker_queued_share": round(
            (after.queued_s - before.queued_s) / (_SECONDS + _WARMUP_S), 2
        ),
        "broker_cpu_share": round(broker_s / (_SECONDS + _WARMUP_S), 2),
        "bench_cpu_share": round(bench_s / (_SECONDS + _WARMUP_S), 2),
    }


def _number(arrival: Arrival) -> int:
    return int(orjson.loads(arrival.value)["pod"]["name"].rpartition("-")[2])


_VARIANTS: tuple[tuple[str, BrokerKind, int], ...] = (
    ("", "kafka", 200),
    (".at_1000", "kafka", 1_000),
    (".embedded", "embedded", 200),
)

_PODS_PER_NODE = 30


def recovery(name: str, key: str, unit: str) -> Figure:
    """Seconds from the start of a new worker after the kill to a decision, or its memory then."""
    measured = _measure_recovery()
    return Figure(name, measured[key], unit, measured)


@cache
def _measure_recovery() -> dict[str, Any]:
    with rig("kafka") as place:
        with place.worker("cluster") as first:
            place.describe_cluster(first, NODES, pods_per_node=_PODS_PER_NODE)
            before = usage(first.pid or 0)
            first.kill()
        place.sender.send(encoded("scheduling-requests", [messages.request(0)]))
        found: list[Arrival] = []
        with Receiver(
            place.settings, ["placement-decisions", "dead-letters"], from_beginning=True
        ) as receiver:
            began = time.monotonic()
            with place.worker("cluster") as second:
                while not found:
                    found += watched(receiver, second)
                    if time.monotonic() > began + PATIENCE_S:
                        raise Unproven(f"no decision came; {second.describe_log()}")
                after = usage(second.pid or 0)
        check_decisions((each.value for each in found), {"asking-0"}, NODES)
        seconds = found[0].at_s - began
        return {
            "nodes": NODES,
            "pods": NODES * _PODS_PER_NODE,
            "seconds": round(seconds, 2),
            "worker_cpu_s": round(after.cpu_s, 2),
            "worker_queued_s": round(after.queued_s, 2),
            "rss_mib": round(after.rss_mib),
            "rss_mib_before_the_kill": round(before.rss_mib),
        }


#: All figures of this module, by name.
BENCHMARKS = {
    **{
        f"{base}{variant}": partial(_figure, f"{base}{variant}", key, unit, measure)
        for base, key, unit, runs in _FIGURES
        for variant, measure in runs.items()
        if unit != "B" or variant != ".embedded"
    },
    **{
        f"decision_latency_p{percentile}_ms{variant}": partial(
            latency, f"decision_latency_p{percentile}_ms{variant}", kind, per_s, percentile
        )
        for variant, kind, per_s in _VARIANTS
        for percentile in (50, 99)
    },
    "recovery_s": partial(recovery, "recovery_s", "seconds", "s"),
    "worker_rss_mib": partial(recovery, "worker_rss_mib", "rss_mib", "MiB"),
}
