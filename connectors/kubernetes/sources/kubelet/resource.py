"""Kubelets' `/metrics/resource`: counters of CPU time and working-set memory of the node and its pods.

CPU is averaged since the previous scrape. So the first scrape of a node, or after a reboot, gives no
message. A message always has CPU and memory of the node, and each pod that the previous scrape had with
the same uid. If a kubelet has no metrics of pods (`pod_`), the containers of a pod are added up.

The kubelet identifies pods by name; the directory adds the uid. Unknown pods are left out; their usage is
part of the node's total. A pod that replaces another pod of its name starts without counters.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import ClassVar

from connectors.kubernetes.sources.base import (
    KubernetesSource,
    NewestMessages,
    SourceContext,
    explain_error,
)
from connectors.kubernetes.sources.directory import NodePods
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.http import AnswerTimes, HttpAnswer, choose_sample_time
from connectors.kubernetes.sources.kubelet.counters import (
    RATE_MAX_MS,
    UNTIMED,
    CpuCounter,
    NoExposition,
    Sample,
    check_complete,
    parse_labels,
    parse_samples,
)
from connectors.kubernetes.sources.kubelet.requests import Kubelets, KubeletSettings
from connectors.kubernetes.sources.kubelet.scraper import Scraper
from connectors.kubernetes.sources.settings import SourceSettings
from schemas.base.message import AMOUNT_MAX
from schemas.messages.usage import PODS_PER_SAMPLE_MAX, NodeUsage, PodUsage

#: Time between two reads of new measurements, in seconds.
READ_S = 0.25
#: Longest time between two reports that nodes or pods are not listed yet, in seconds.
UNLISTED_S = 10.0
START = b"container_start_time_seconds"
#: Start times before 2000 are ignored: a kernel without a clock reports them, and kwok reports ages.
START_MIN_S = 946_684_800
CPU, MEMORY = b"_cpu_usage_seconds_total", b"_memory_working_set_bytes"
#: If a node's clock is set by more than this between two scrapes, its stamps do not measure time.
CLOCK_STEP_MS = 2_500
#: Lines of a kubelet that cannot get its figures.
_SCRAPE_ERRORS = (b"\nresource_scrape_error 1\n", b"\nscrape_error 1\n")


class _Node:
    """State of a node between scrapes."""

    __slots__ = ("counters", "cpu", "pods", "pods_version", "sampled_at_ms", "seen", "skew_ms")

    def __init__(self, sampled_at_ms: int) -> None:
        self.cpu: CpuCounter | None = None
        self.sampled_at_ms = sampled_at_ms
        """Time of the newest message."""
        self.skew_ms: int | None = None
        self.pods: dict[bytes, PodUsage | None] = {}
        """Pods without usage, by the kubelet's labels; None: unknown."""
        self.pods_version = -1
        """Version of the directory when the pods were looked up."""
        self.seen: dict[bytes, str] = {}
        """uids of the pods in the last scrape."""
        self.counters: dict[bytes, CpuCounter] = {}
        """Counters of pods or of containers, by labels."""


class KubeletResource(KubernetesSource[KubeletSettings]):
    """CPU and memory of nodes and pods from kubelets' `/metrics/resource`."""

    name: ClassVar[str] = "kubelet_resource"
    settings_class: ClassVar[type[SourceSettings]] = KubeletSettings

    def __init__(self, settings: KubeletSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self.interval_s = min(READ_S, settings.interval_ms / 2_000)
        self._newest: NewestMessages[NodeUsage] = NewestMessages(self.health)
        self._kubelets = Kubelets(settings, context)
        self._nodes: dict[str, _Node] = {}
        self._nodes_version = -1
        self._longest_ms = max(RATE_MAX_MS, 3 * settings.interval_ms)
        """Longest time of a rate: one scrape may be missing and another may be late."""
        self._missed_at_s = time.monotonic()
        """When missing nodes were last reported, or this source was created."""

    def read(self) -> AsyncIterator[NodeUsage]:
        """Yield the measurements since the last call.

        Raises SourceFailed until the directory is complete, once per interval or per `UNLISTED_S`.
        """
        now_s, every_s = time.monotonic(), min(self.settings.interval_ms / 1_000, UNLISTED_S)
        if not self.is_listed() and now_s - self._missed_at_s >= every_s:
            self._missed_at_s = now_s
            self.require_listed()
        return self._newest.read()

    async def run(self) -> None:
        """Poll the kubelets until it is cancelled."""
        interval_s = self.settings.interval_ms / 1_000
        scraper = Scraper(self._scrape, interval_s=interval_s, health=self.health)
        try:
            await scraper.run(self._list_changed_nodes)
        finally:
            await self._kubelets.close()

    async def _scrape(self, node: str) -> None:
        try:
            answer = await self._kubelets.get(node)
            message = self.build_sample(node, answer)
        except SourceFailed as failed:
            self.health.record_failure(failed, node)
            return
        except Exception as error:  # a node's answer must not end the source
            self.health.record_failure(
                SourceFailed("unreadable", explain_error(error, NodeUsage)), node
            )
            return
        self.health.record_success(node)
        if message is not None:
            self.health.counts["samples"] += 1
            self._newest.put(message)

    def _list_changed_nodes(self) -> Iterable[str] | None:
        directory = self.directory
        if not self.is_listed():
            return None
        if self._nodes_version == directory.nodes_version:
            return None
        self._nodes_version = directory.nodes_version
        self.health.keep_only(directory.nodes.keys())
        for node in self._nodes.keys() - directory.nodes.keys():
            del self._nodes[node]
        return directory.nodes.keys()

    def build_sample(self, node: str, answer: HttpAnswer) -> NodeUsage | None:
        """Return the sample of a scrape; None: it only starts the next rate."""
        body, times = answer.body, answer.times
        try:
            check_complete(body)
            if any(line in body for line in _SCRAPE_ERRORS):
                raise SourceFailed("server_error", "the kubelet could not get its own figures")
            cpu, memory = (parse_samples(body, b"node" + kind)[:1] for kind in (CPU, MEMORY))
            if not cpu or not memory or not 0 <= memory[0][1] <= AMOUNT_MAX:
                raise SourceFailed("incomplete", "the answer lacks the node's CPU or memory")
            return self._build_sample(node, body, times, cpu[0], int(memory[0][1]))
        except NoExposition as error:
            raise SourceFailed("unreadable", str(error)) from error

    def _build_sample(
        self, name: str, body: bytes, times: AnswerTimes, cpu: Sample, memory: int
    ) -> NodeUsage | None:
        stamped_ms = None if cpu[2] == UNTIMED else cpu[2]
        at_ms, skew_ms = choose_sample_time(times, stamped_ms)
        self.health.record_clock_skew(name, skew_ms)
        node = self._nodes.get(name)
        if node is None or _has_stepped(node.skew_ms, skew_ms):
            node = self._nodes[name] = _Node(0 if node is None else node.sampled_at_ms)
        node.skew_ms = skew_ms
        pods = self._pods(node, self.directory.pods_on(name), body, times)
        node.cpu = _update_counter(node.cpu, cpu, times, self._longest_ms)
        if node.cpu.millicores is None or at_ms <= node.sampled_at_ms:
            return None
        usage = {"cpu": node.cpu.millicores, "memory": memory}
        message = NodeUsage(
            cluster=self.cluster,
            node=name,
            sampled_at_ms=at_ms,
            interval_ms=node.cpu.span_ms,
            usage=usage,
            pods=tuple(pods),
        )
        node.sampled_at_ms = at_ms
        return message

    def _pods(
        self, node: _Node, directory: NodePods, body: bytes, times: AnswerTimes
    ) -> list[PodUsage]:
        """Return the usage of each pod of the previous scrape, in the order of the answer."""
        counted = parse_samples(body, b"pod" + CPU)
        kind, pod_of = b"pod", _itself
        began: dict[bytes, float] = {}
        if not counted and (counted := parse_samples(body, b"container" + CPU)):
            kind, pod_of = b"container", _get_pod_labels
            starts = parse_samples(body, START)
            began = {labels: value for labels, value, _ in starts if value > START_MIN_S}
        memory = _sum_bytes(parse_samples(body, kind + MEMORY), pod_of)
        self._resolve(node, directory, {*memory, *(pod_of(labels) for labels, _, _ in counted)})
        previous = node.counters
        backwards = {
            pod_of(labels)
            for labels, _, at_ms in counted
            if at_ms != UNTIMED and labels in previous and at_ms < previous[labels].at_ms
        }
        rates = _update_rates(node, counted, pod_of, times, self._longest_ms, began)
        usages: list[PodUsage] = []
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
            if usage:
                # A copy is not validated again, which would take as long as everything else.
                usages.append(pod.model_copy(update={"usage": usage}))
        node.seen = seen
        return usages[:PODS_PER_SAMPLE_MAX]

    def _resolve(self, node: _Node, directory: NodePods, all_labels: set[bytes]) -> None:
        """Look up the uids of the pods of a scrape; drop the counters of replaced pods."""
        if node.pods_version == directory.version and node.pods.keys() >= all_labels:
            return
        pods: dict[bytes, PodUsage | None] = {}
        for labels in all_labels:
            pods[labels] = _find_pod(labels, directory)
            if node.pods.get(labels) != pods[labels]:
                for key in [key for key in node.counters if _get_pod_labels(key) == labels]:
                    del node.counters[key]
        node.pods, node.pods_version = pods, directory.version


def _find_pod(labels: bytes, directory: NodePods) -> PodUsage | None:
    """Return the pod with a kubelet's labels, without usage; None: unknown."""
    parsed = parse_labels(labels)
    namespace, name = parsed.get("namespace", ""), parsed.get("pod", "")
    pod = directory.pods.get((namespace, name))
    if pod is None:
        return None
    return PodUsage(namespace=namespace, name=name, uid=pod.uid, usage={})


def _update_rates(
    node: _Node,
    counted: list[Sample],
    pod_of: Callable[[bytes], bytes],
    times: AnswerTimes,
    longest_ms: int,
    began: Mapping[bytes, float],
) -> dict[bytes, int | None]:
    """Return the millicores of each pod; None: one of its counters has no rate yet."""
    counters: dict[bytes, CpuCounter] = {}
    rates: dict[bytes, int | None] = {}
    previous = node.counters
    for sample in counted:
        labels = sample[0]
        counter = counters[labels] = _update_counter(
            previous.get(labels), sample, times, longest_ms, began.get(labels)
        )
        pod, rate = pod_of(labels), counter.millicores
        if pod in rates:
            others = rates[pod]
            rate = None if rate is None or others is None else rate + others
        rates[pod] = rate
    node.counters = counters
    return rates


def _update_counter(
    counter: CpuCounter | None,
    sample: Sample,
    times: AnswerTimes,
    longest_ms: int,
    began_s: float | None = None,
) -> CpuCounter:
    at_ms = times.answered_at_ms if sample[2] == UNTIMED else sample[2]
    if counter is None:
        return CpuCounter(sample[1], at_ms, began_s)
    counter.take(sample[1], at_ms, longest_ms, began_s)
    return counter


def _sum_bytes(samples: list[Sample], pod_of: Callable[[bytes], bytes]) -> dict[bytes, int]:
    """Return the bytes of each pod; invalid amounts are left out."""
    sums: dict[bytes, int] = {}
    for labels, value, _ in samples:
        if 0 <= value <= AMOUNT_MAX:
            pod = pod_of(labels)
            sums[pod] = sums.get(pod, 0) + int(value)
    return sums


def _has_stepped(before_ms: int | None, now_ms: int | None) -> bool:
    return before_ms is not None and now_ms is not None and abs(now_ms - before_ms) > CLOCK_STEP_MS


def _itself(labels: bytes) -> bytes:
    return labels


def _get_pod_labels(labels: bytes) -> bytes:
    """Return the pod's labels of a container; kubelets write labels in alphabetical order."""
    return labels.partition(b",")[2] if labels.startswith(b'container="') else labels
