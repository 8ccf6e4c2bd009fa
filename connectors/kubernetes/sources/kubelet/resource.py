"""Kubelets' `/metrics/resource`: counters of CPU time, and working-set memory, of node and pods.

CPU is the mean since the scrape before, so a node's first scrape gives no message, and neither does
the first after its counter began anew (a reboot). A message holds the node's CPU and memory, both
or it is none, and each pod that was seen before under the same uid, with what was measured of it. A
pod whose containers' counters are all there is (a kubelet without `pod_` metrics) has their sum.

Pods are named without uid: the directory adds it. Pods that it does not know are left out; what
they use is in the node's total. A pod that replaces another of its name begins with nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Literal

from connectors.kubernetes.sources.base import SourceContext
from connectors.kubernetes.sources.clock_skew import Answered, choose_sample_time
from connectors.kubernetes.sources.directory import NodePods
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.http import HttpAnswer
from connectors.kubernetes.sources.kubelet.exposition import (
    UNTIMED,
    NoExposition,
    Sample,
    labels_of,
    number,
    samples,
    whole,
)
from connectors.kubernetes.sources.kubelet.rates import RATE_MAX_MS, CpuCounter
from connectors.kubernetes.sources.kubelet.source import KubeletSettings, KubeletSource
from connectors.kubernetes.sources.settings import SourceSettings
from schemas.base.message import AMOUNT_MAX
from schemas.messages.usage import PODS_PER_SAMPLE_MAX, NodeUsage, PodUsage
from schemas.policy.parts import Items

START = b"container_start_time_seconds"
#: Start times before 2000 are none: kernels without a clock have them, and kwok gives ages.
START_MIN_S = 946_684_800
CPU, MEMORY, SWAP = b"_cpu_usage_seconds_total", b"_memory_working_set_bytes", b"_swap_usage_bytes"
#: If the clock of a node moves by so much between two scrapes, its stamps do not measure time.
CLOCK_STEP_MS = 2_500
#: What a kubelet that cannot get its figures says.
_SCRAPE_ERRORS = (b"\nresource_scrape_error 1\n", b"\nscrape_error 1\n")


class _Node:
    """What is kept of one node from scrape to scrape."""

    __slots__ = ("counters", "cpu", "pods", "pods_version", "sampled_at_ms", "seen", "skew_ms")

    def __init__(self, sampled_at_ms: int) -> None:
        self.cpu: CpuCounter | None = None
        self.sampled_at_ms = sampled_at_ms
        """Time of the newest message."""
        self.skew_ms: int | None = None
        self.pods: dict[bytes, PodUsage | None] = {}
        """Pods by the labels that the kubelet names them by, without figures; none: not known."""
        self.pods_version = -1
        """Version of the directory that they were looked up in."""
        self.seen: dict[bytes, str] = {}
        """uids of the pods in the last scrape."""
        self.counters: dict[bytes, CpuCounter] = {}
        """By labels: one of each pod, or one of each container."""


class KubeletResourceSettings(KubeletSettings):
    """How kubelets are asked for counters, which are of fewer resources than their summary is."""

    extra_resources: Items[Literal["swap"]] = ()
    """Resources to report beside CPU and memory."""


class KubeletResource(KubeletSource):
    """CPU and memory of nodes and pods from kubelets' `/metrics/resource`."""

    name: ClassVar[str] = "kubelet_resource"
    path: ClassVar[str] = "/metrics/resource"
    settings_class: ClassVar[type[SourceSettings]] = KubeletResourceSettings

    def __init__(self, settings: KubeletSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._nodes: dict[str, _Node] = {}
        self._swap = "swap" in settings.extra_resources
        self._longest_ms = max(RATE_MAX_MS, 3 * settings.interval_ms)
        """Of rates: a reading may be missed, and another one come late."""

    def keep_only(self, nodes: Iterable[str]) -> None:
        """Forget the counters of other nodes."""
        for gone in self._nodes.keys() - set(nodes):
            del self._nodes[gone]

    def measured(self, node: str, answer: HttpAnswer) -> NodeUsage | None:
        """The sample that a scrape completes; none: it is only where the next one begins."""
        body, times = answer.body, answer.times
        try:
            whole(body)
            if any(said in body for said in _SCRAPE_ERRORS):
                raise SourceFailed("server_error", "the kubelet could not get its own figures")
            cpu, memory = number(body, b"node" + CPU), number(body, b"node" + MEMORY)
            if cpu is None or memory is None or not 0 <= memory[1] <= AMOUNT_MAX:
                raise SourceFailed("incomplete", "the answer lacks the node's CPU or memory")
            return self._sample(node, body, times, cpu, int(memory[1]))
        except NoExposition as error:
            raise SourceFailed("unreadable", str(error)) from error

    def _sample(
        self, name: str, body: bytes, times: Answered, cpu: Sample, memory: int
    ) -> NodeUsage | None:
        stamped_ms = None if cpu[2] == UNTIMED else cpu[2]
        time = choose_sample_time(times, stamped_ms)
        self.health.record_clock_skew(name, time.skew_ms, from_receipt=time.from_receipt)
        node = self._nodes.get(name)
        if node is None or _stepped(node.skew_ms, time.skew_ms):
            node = self._nodes[name] = _Node(0 if node is None else node.sampled_at_ms)
        node.skew_ms = time.skew_ms
        pods = self._pods(node, self.directory.pods_on(name), body, times)
        node.cpu = _next(node.cpu, cpu, times, self._longest_ms)
        if node.cpu.millicores is None or time.at_ms <= node.sampled_at_ms:
            return None
        usage = {"cpu": node.cpu.millicores, "memory": memory}
        if self._swap and (swap := number(body, b"node" + SWAP)) and 0 <= swap[1] <= AMOUNT_MAX:
            usage["swap"] = int(swap[1])
        message = self._message(name, time.at_ms, node.cpu.span_ms, usage, pods)
        node.sampled_at_ms = time.at_ms
        return message

    def _message(
        self, node: str, at_ms: int, span_ms: int, usage: dict[str, int], pods: list[PodUsage]
    ) -> NodeUsage:
        return NodeUsage(
            cluster=self.cluster,
            node=node,
            sampled_at_ms=at_ms,
            interval_ms=span_ms,
            usage=usage,
            pods=tuple(pods),
        )

    def _pods(
        self, node: _Node, directory: NodePods, body: bytes, times: Answered
    ) -> list[PodUsage]:
        """What was measured of each pod that was seen before, in the order of the answer."""
        counted = samples(body, b"pod" + CPU)
        kind, pod_of = b"pod", _itself
        began: dict[bytes, float] = {}
        if not counted and (counted := samples(body, b"container" + CPU)):
            kind, pod_of = b"container", _pod_labels
            began = {
                labels: value for labels, value, _ in samples(body, START) if value > START_MIN_S
            }
        memory = _summed(samples(body, kind + MEMORY), pod_of)
        swap = _summed(samples(body, kind + SWAP), pod_of) if self._swap else {}
        self._resolve(node, directory, {*memory, *(pod_of(labels) for labels, _, _ in counted)})
        known = node.counters
        backwards = {
            pod_of(labels)
            for labels, _, at_ms in counted
            if at_ms != UNTIMED and labels in known and at_ms < known[labels].at_ms
        }
        rates = _rates(node, counted, pod_of, times, self._longest_ms, began)
        found: list[PodUsage] = []
        seen: dict[bytes, str] = {}
        for labels in {**memory, **rates}:
            pod = node.pods[labels]
            if pod is None:
                continue
            seen[labels] = pod.uid
            if node.seen.get(labels) != pod.uid or labels in backwards:
                continue
            usage = {}
            if (rate := rates.get(labels)) is not None:
                usage["cpu"] = rate
            if labels in memory:
                usage["memory"] = memory[labels]
            if labels in swap:
                usage["swap"] = swap[labels]
            if usage:
                # A copy is not validated again: that would take as long as all the rest.
                found.append(pod.model_copy(update={"usage": usage}))
        node.seen = seen
        return found[:PODS_PER_SAMPLE_MAX]

    def _resolve(self, node: _Node, directory: NodePods, all_labels: set[bytes]) -> None:
        """Find the uids of the pods of a scrape; a pod that is another than before begins anew."""
        if node.pods_version == directory.version and node.pods.keys() >= all_labels:
            return
        pods: dict[bytes, PodUsage | None] = {}
        for labels in all_labels:
            pods[labels] = _who(labels, directory)
            if node.pods.get(labels) != pods[labels]:
                for each in [each for each in node.counters if _pod_labels(each) == labels]:
                    del node.counters[each]
        node.pods, node.pods_version = pods, directory.version


def _who(labels: bytes, directory: NodePods) -> PodUsage | None:
    """The pod that a kubelet's labels name, without figures; none: the directory has none."""
    read = labels_of(labels)
    namespace, name = read.get("namespace", ""), read.get("pod", "")
    pod = directory.pods.get((namespace, name))
    if pod is None:
        return None
    return PodUsage(namespace=namespace, name=name, uid=pod.uid, usage={})


def _rates(
    node: _Node,
    counted: list[Sample],
    pod_of: Callable[[bytes], bytes],
    times: Answered,
    longest_ms: int,
    began: Mapping[bytes, float],
) -> dict[bytes, int | None]:
    """Millicores of each pod; none: one of its counters says nothing yet."""
    counters: dict[bytes, CpuCounter] = {}
    rates: dict[bytes, int | None] = {}
    known = node.counters
    for sample in counted:
        labels = sample[0]
        counter = counters[labels] = _next(
            known.get(labels), sample, times, longest_ms, began.get(labels)
        )
        pod, rate = pod_of(labels), counter.millicores
        if pod in rates:
            others = rates[pod]
            rate = None if rate is None or others is None else rate + others
        rates[pod] = rate
    node.counters = counters
    return rates


def _next(
    counter: CpuCounter | None,
    sample: Sample,
    times: Answered,
    longest_ms: int,
    began_s: float | None = None,
) -> CpuCounter:
    """The counter with its next reading."""
    at_ms = times.came_at_ms if sample[2] == UNTIMED else sample[2]
    if counter is None:
        return CpuCounter(sample[1], at_ms, began_s)
    counter.take(sample[1], at_ms, longest_ms, began_s)
    return counter


def _summed(found: list[Sample], pod_of: Callable[[bytes], bytes]) -> dict[bytes, int]:
    """Bytes of each pod; what cannot be an amount is left out."""
    sums: dict[bytes, int] = {}
    for labels, value, _ in found:
        if 0 <= value <= AMOUNT_MAX:
            pod = pod_of(labels)
            sums[pod] = sums.get(pod, 0) + int(value)
    return sums


def _stepped(before_ms: int | None, now_ms: int | None) -> bool:
    """The node's clock was set between two scrapes."""
    return before_ms is not None and now_ms is not None and abs(now_ms - before_ms) > CLOCK_STEP_MS


def _itself(labels: bytes) -> bytes:
    return labels


def _pod_labels(labels: bytes) -> bytes:
    """The labels of a container without its own; a kubelet writes labels in the order of names."""
    return labels.partition(b",")[2] if labels.startswith(b'container="') else labels
