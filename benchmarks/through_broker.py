"""One worker behind a broker: throughput, latency, and recovery after kill -9.

Throughput is measured on a backlog, so the worker is always busy. The time is from the first sent record
to the last received answer, so it includes producing the backlog.

Latency is measured at a constant rate of requests, from queuing a request in the producer to receiving the
decision: two trips through the broker, and the acknowledgement of the journal. If the benchmark sends a
request late, the time starts when the request was due, so latencies include stalls of the benchmark. The
benchmark sleeps `_STEP_S` between two steps to leave the cores to broker and worker; latencies include
this time.

Recovery is the time from the start of a new worker to its first decision, on a large cluster.
"""

import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import orjson

from benchmarks import messages
from benchmarks.figures import CheckFailed, Figure
from benchmarks.rig import (
    TIMEOUT_S,
    Arrival,
    BrokerKind,
    EncodedRecord,
    Receiver,
    Rig,
    check_decisions,
    read_usage,
    receive,
    start_rig,
    to_records,
)
from connectors.kafka.topics import changelog_name
from schemas.storage.tables import WINDOWS
from simulation.processes import LoadstreamProcess

NODES = 5_000
PODS_PER_SAMPLE = 30
#: `steady_per_s` leaves out this share of the answers at the beginning and at the end.
_EDGE = 0.1


@cache
def measure_decisions(
    kind: BrokerKind, requests: int, pods_per_node: int, kinds: int = messages.KINDS
) -> dict[str, Any]:
    """Send requests of `kinds` kinds, receive the decisions, and count the journal's bytes."""
    with start_rig(kind) as rig, rig.run_worker("cluster") as worker:
        rig.send_cluster(worker, NODES, pods_per_node=pods_per_node)
        _warm_up(rig, worker)
        before = _count_journal_bytes(rig)
        requested = (messages.make_request(number, kinds) for number in range(requests))
        records = to_records("scheduling-requests", requested)
        arrivals, measured = _send_through(rig, worker, records, "placement-decisions", requests)
        check_decisions(arrivals, {f"asking-{n}" for n in range(requests)}, NODES)
        measured |= {"nodes": NODES, "pods_per_node": pods_per_node, "kinds": kinds}
        measured["bytes_per_record"] = round((_count_journal_bytes(rig) - before) / requests)
    return measured


@cache
def measure_samples(kind: BrokerKind, nodes: int, rounds: int) -> dict[str, Any]:
    """Send usage samples of 30 pods each, receive node metrics, and count the changelog's bytes."""
    metrics = nodes * ((rounds - 1) // messages.SAMPLES_PER_METRIC)
    with start_rig(kind) as rig, rig.run_worker("aggregate") as worker:
        records = to_records(
            "node-usage", messages.make_usage_samples(nodes, rounds, PODS_PER_SAMPLE)
        )
        # After the first round, the worker has its partitions and a window for every node.
        changelog = changelog_name(WINDOWS)
        with Receiver(rig.settings, [changelog]) as receiver:
            rig.sender.send(records[:nodes])
            deadline = time.monotonic() + TIMEOUT_S
            while not list(receive(receiver, worker)):
                if time.monotonic() > deadline:
                    raise CheckFailed(f"no sample was applied; {worker.describe_log()}")
        arrivals, measured = _send_through(rig, worker, records[nodes:], "node-metrics", metrics)
        measured |= {
            "pods_per_sample": PODS_PER_SAMPLE,
            "sample_bytes": sum(len(record.value) for record in records) // len(records),
            "metrics": len(arrivals),
        }
        measured["bytes_per_record"] = round(rig.count_bytes([changelog]) / len(records))
    return measured


def _make_figure(key: str, unit: str, measure: Callable[[], dict[str, Any]]) -> Figure:
    """Return one figure of a run. Figures with the same `measure` share one run."""
    measured = measure()
    return Figure(measured[key], unit, measured)


def _count_journal_bytes(rig: Rig) -> int:
    # The embedded broker drops old records of the journal, so a difference would be wrong.
    return rig.count_bytes(["journal"]) if rig.broker_pid else 0


def _read_broker_cpu_s(rig: Rig) -> float:
    return read_usage(rig.broker_pid).cpu_s if rig.broker_pid else 0.0


def _send_through(
    rig: Rig, worker: LoadstreamProcess, records: list[EncodedRecord], answers: str, expected: int
) -> tuple[list[Arrival], dict[str, Any]]:
    """Send all records, receive `expected` answers, and check that no further answer follows."""
    arrivals: list[Arrival] = []
    with Receiver(rig.settings, [answers, "dead-letters"]) as receiver:
        before = read_usage(worker.pid or 0)
        broker_before_s = _read_broker_cpu_s(rig)
        began = time.monotonic()
        producer_per_s = rig.sender.send(records)
        while len(arrivals) < expected:
            new = list(receive(receiver, worker))
            arrivals += new
            last_s = arrivals[-1].at_s if arrivals else began
            if not new and time.monotonic() > last_s + TIMEOUT_S:
                counts = f"received {len(arrivals)} of {expected} records of {answers}"
                raise CheckFailed(f"{counts}; {worker.describe_log()}")
        seconds = arrivals[-1].at_s - began
        after, broker_cpu_s = read_usage(worker.pid or 0), _read_broker_cpu_s(rig) - broker_before_s
        arrivals += receive(receiver, worker, wait_s=1.5)
    if len(arrivals) != expected:
        raise CheckFailed(f"received {len(arrivals)} records of {answers}; expected {expected}")
    steady_arrivals = arrivals[int(expected * _EDGE) : int(expected * (1 - _EDGE))]
    steady_s = steady_arrivals[-1].at_s - steady_arrivals[0].at_s
    measured: dict[str, Any] = {
        "records": len(records),
        "per_s": round(len(records) / seconds, 1),
        "seconds": round(seconds, 2),
        "steady_per_s": round(len(records) * (1 - 2 * _EDGE) / steady_s) if steady_s else None,
        "worker_cpu_us_per_record": round((after.cpu_s - before.cpu_s) / len(records) * 1e6, 1),
        "worker_cpu_share": round((after.cpu_s - before.cpu_s) / seconds, 2),
        # Share of the time in which a thread of the worker waited for a core.
        "worker_queued_share": round((after.queued_s - before.queued_s) / seconds, 2),
        "broker_cpu_us_per_record": round(broker_cpu_s / len(records) * 1e6, 1),
        "producer_per_s": round(producer_per_s),
        "worker_rss_mib": round(after.rss_mib),
    }
    return arrivals, measured


def _warm_up(rig: Rig, worker: LoadstreamProcess, requests: int = 200) -> None:
    """Before the measurement, send requests of other pods and receive their decisions."""
    numbers = range(-requests, 0)
    records = to_records("scheduling-requests", map(messages.make_request, numbers))
    arrivals, _ = _send_through(rig, worker, records, "placement-decisions", requests)
    check_decisions(arrivals, {f"asking-{n}" for n in numbers}, NODES)


_DECISIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "": partial(measure_decisions, "kafka", 30_000, 0),
    ".loaded": partial(measure_decisions, "kafka", 20_000, 30),
    ".kinds_64": partial(measure_decisions, "kafka", 20_000, 30, 64),
    ".kinds_600": partial(measure_decisions, "kafka", 20_000, 30, 600),
    # A partition of the embedded broker keeps 5 MB.
    ".embedded": partial(measure_decisions, "embedded", 6_000, 0),
}
_SAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "": partial(measure_samples, "kafka", 2_000, 9),
    ".embedded": partial(measure_samples, "embedded", 700, 5),
}
_FIGURES = (
    ("decisions_per_s", "per_s", "1/s", _DECISIONS),
    ("journal_bytes_per_decision", "bytes_per_record", "B", _DECISIONS),
    ("aggregate_samples_per_s", "per_s", "1/s", _SAMPLES),
    ("changelog_bytes_per_sample", "bytes_per_record", "B", _SAMPLES),
)

_SECONDS = 15
#: Time between two steps. A step sends due requests and receives decisions.
_STEP_S = 0.002
#: Requests of the first seconds are not counted, because rankings and connections are new.
_WARMUP_S = 3


@cache
def _measure_latency(kind: BrokerKind, per_s: int) -> dict[str, Any]:
    with start_rig(kind) as rig, rig.run_worker("cluster") as worker:
        rig.send_cluster(worker, NODES)
        count = per_s * (_SECONDS + _WARMUP_S)
        records = to_records("scheduling-requests", map(messages.make_request, range(count)))
        due: list[float] = []
        arrivals: list[Arrival] = []
        with Receiver(rig.settings, ["placement-decisions", "dead-letters"]) as receiver:
            before, bench_before_s = read_usage(worker.pid or 0), time.process_time()
            broker_before_s = _read_broker_cpu_s(rig)
            began = time.monotonic()
            while len(arrivals) < count:
                now = time.monotonic()
                while len(due) < count and began + len(due) / per_s <= now:
                    rig.sender.enqueue(records[len(due)])
                    due.append(began + len(due) / per_s)
                time.sleep(_STEP_S)
                arrivals += receive(receiver, worker, 0.0)
                if now > due[-1] + TIMEOUT_S:
                    counts = f"received {len(arrivals)} of {count} decisions"
                    raise CheckFailed(f"{counts}; {worker.describe_log()}")
            after, bench_s = read_usage(worker.pid or 0), time.process_time() - bench_before_s
            broker_s = _read_broker_cpu_s(rig) - broker_before_s
            arrivals += receive(receiver, worker, 1.0)
    check_decisions(arrivals, {f"asking-{n}" for n in range(count)}, NODES)
    waited_ms = np.array(
        [(arrival.at_s - due[_read_number(arrival)]) * 1000 for arrival in arrivals]
    )
    counted = waited_ms[[_read_number(arrival) >= per_s * _WARMUP_S for arrival in arrivals]]
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


def _read_number(arrival: Arrival) -> int:
    return int(orjson.loads(arrival.value)["pod"]["name"].rpartition("-")[2])


_VARIANTS: tuple[tuple[str, BrokerKind, int], ...] = (
    ("", "kafka", 200),
    (".at_1000", "kafka", 1_000),
    (".embedded", "embedded", 200),
)

_PODS_PER_NODE = 30


@cache
def _measure_recovery() -> dict[str, Any]:
    with start_rig("kafka") as rig:
        with rig.run_worker("cluster") as first:
            rig.send_cluster(first, NODES, pods_per_node=_PODS_PER_NODE)
            before = read_usage(first.pid or 0)
            first.kill()
        rig.sender.send(to_records("scheduling-requests", [messages.make_request(0)]))
        arrivals: list[Arrival] = []
        with Receiver(
            rig.settings, ["placement-decisions", "dead-letters"], from_beginning=True
        ) as receiver:
            began = time.monotonic()
            with rig.run_worker("cluster") as second:
                while not arrivals:
                    arrivals += receive(receiver, second)
                    if time.monotonic() > began + TIMEOUT_S:
                        raise CheckFailed(f"received no decision; {second.describe_log()}")
                after = read_usage(second.pid or 0)
        check_decisions(arrivals, {"asking-0"}, NODES)
        seconds = arrivals[0].at_s - began
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
        f"{base}{variant}": partial(_make_figure, key, unit, measure)
        for base, key, unit, runs in _FIGURES
        for variant, measure in runs.items()
        if unit != "B" or variant != ".embedded"
    },
    **{
        f"decision_latency_p{percentile}_ms{variant}": partial(
            _make_figure, f"p{percentile}_ms", "ms", partial(_measure_latency, kind, per_s)
        )
        for variant, kind, per_s in _VARIANTS
        for percentile in (50, 99)
    },
    "recovery_s": partial(_make_figure, "seconds", "s", _measure_recovery),
    "worker_rss_mib": partial(_make_figure, "rss_mib", "MiB", _measure_recovery),
}
