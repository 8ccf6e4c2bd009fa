"""Windows of one node: checks, adds and drops samples.

A sample may be late, but not older than the longest window before the node's newest sample. An older sample,
or a second sample of the same time, is refused. Expired samples are dropped when the next batch changes the
node. So a batch that is not completed can be applied again to the rows that it has changed.
"""

from typing import Literal, NamedTuple

from schemas.base.refusals import Refusal
from schemas.topics.catalog import node_key
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.aggregate.lifetimes import MemberLifetimes
from streams.aggregate.percentile import UNKNOWN, find_measured
from streams.aggregate.pods import PodWindow, find_numbers
from streams.aggregate.rows import (
    LIFETIME_ROW_NUMBERS_MAX,
    ROW_NUMBERS_MAX,
    PodEntry,
    RowLog,
    SampleEntry,
    count_numbers,
)
from streams.aggregate.samples import SampleFigures
from streams.aggregate.window import SampleWindow

Verdict = Literal["add", "duplicate"] | Refusal


class _Columns(NamedTuple):
    """Resources of a node's figures after a sample."""

    resources: int
    """Number of resources."""
    keep: list[int] | None = None
    """Indexes of the resources that the windows still need; None: all."""


class NodeWindows:
    __slots__ = (
        "_pods_log", "_samples_log", "cluster", "created_offset", "key", "name", "pods", "reported_at_ms",
        "samples", "since_offset",
    )  # fmt: skip

    def __init__(
        self,
        cluster: str,
        name: str,
        created_offset: int,
        samples_log: RowLog[SampleEntry],
        pods_log: RowLog[PodEntry],
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.key = node_key(cluster, name)
        self.created_offset = created_offset
        """Offset of the node's first sample."""
        self.since_offset = created_offset
        """Offset of the record with which the windows began."""
        self.reported_at_ms = 0
        """Time of the last report, or of the first sample."""
        self.samples = SampleWindow()
        self.pods = PodWindow()
        self._samples_log, self._pods_log = samples_log, pods_log

    def begin(self, offset: int) -> "NodeWindows":
        """Return a node of the same name without samples."""
        return NodeWindows(self.cluster, self.name, offset, self._samples_log, self._pods_log)

    @property
    def newest_ms(self) -> int | None:
        return self.samples.newest_ms

    def check_sample(
        self, sample: SampleFigures, rules: PoolRules, limits: AggregateLimits
    ) -> Verdict:
        """Decide whether to add a sample; may drop resources that no window needs."""
        time_ms = sample.sampled_at_ms
        newest_ms = self.newest_ms
        if newest_ms is not None:
            if time_ms < newest_ms - rules.horizon_ms:
                return Refusal(
                    "late",
                    f"sampled_at_ms is {time_ms}, {newest_ms - time_ms} ms before the node's newest "
                    f"sample; allowed are at most {rules.horizon_ms} ms, the longest window",
                )
            digest = self.samples.find_digest(time_ms)
            if digest == sample.digest:
                return "duplicate"
            if digest is not None:
                return Refusal(
                    "late",
                    f"sampled_at_ms is {time_ms}, and the node has a different sample of that time; "
                    f"expected one sample per node and time",
                )
        newest_ms = max(time_ms, newest_ms or time_ms)
        columns = self._select_columns(sample, newest_ms, rules, limits)
        refusal = self._check_samples(newest_ms - rules.horizon_ms, limits)
        if isinstance(columns, Refusal):
            return refusal or columns
        pods_since_ms = newest_ms - rules.average_horizon_ms
        refusal = refusal or self._check_members(sample, columns, pods_since_ms, limits)
        if refusal is not None:
            return refusal
        if columns.keep is not None:
            # Only now: after a refusal, the windows may still need the other columns.
            self.samples.narrow(columns.keep)
            self.pods.narrow(columns.keep)
        return "add"

    def add_sample(self, sample: SampleFigures, offset: int, rules: PoolRules) -> list[int]:
        """Add a sample after `check_sample` has returned "add"; return figures for a `SampleEntry`."""
        before_ms = self.newest_ms
        lifetimes_before = self.find_lifetimes(rules)
        self._add_resources(sample)
        resources = self.samples.resources
        figures = [
            amounts.get(resource, UNKNOWN)
            for resource in resources
            for amounts in (sample.usage, sample.system)
        ]
        if not len(self.samples):
            self.reported_at_ms = sample.sampled_at_ms
        row = self._samples_log.reserve(count_numbers(len(resources)))
        self.samples.add(sample.sampled_at_ms, sample.digest, row, figures)
        if sample.members:
            matrix = self.pods.build_matrix(sample.members, resources)
            row = self._pods_log.reserve(matrix.size)
            self.pods.add(sample.sampled_at_ms, row, matrix)
            lifetimes = None
            if before_ms is None or sample.sampled_at_ms > before_ms:
                rows_before = self.pods.lifetimes_rows
                lifetimes = self.pods.extend_lifetimes(
                    lifetimes_before, resources, rules.average_horizon_ms
                )
                if lifetimes is not None:
                    self._pods_log.hold(row)
                    self._pods_log.release(rows_before)
            numbers_max = ROW_NUMBERS_MAX if lifetimes is None else LIFETIME_ROW_NUMBERS_MAX
            self._pods_log.append(
                PodEntry(self.key, offset, tuple(resources), matrix, lifetimes), numbers_max
            )
        return figures

    def find_lifetimes(self, rules: PoolRules) -> MemberLifetimes | None:
        """Return the lifetimes of the pods, unless they have ended.

        Lifetimes end when the average window has no pods, or when the sample that extended them last
        is older than the longest window.
        """
        newest_ms, lifetimes = self.newest_ms, self.pods.lifetimes
        if newest_ms is None or lifetimes is None or lifetimes.at_ms < newest_ms - rules.horizon_ms:
            return None
        return lifetimes if self.pods.select_since(newest_ms - rules.average_horizon_ms) else None

    def drop_expired(self, rules: PoolRules) -> None:
        """Drop expired samples; called before a batch changes the node for the first time."""
        self.drop_older(rules.horizon_ms, rules.average_horizon_ms)
        if self.pods.names_changed:
            self.pods.prune()

    def drop_older(self, horizon_ms: int, average_horizon_ms: int) -> None:
        """Drop samples that are older than the horizons, counted from the newest sample; keep names."""
        newest_ms = self.newest_ms
        if newest_ms is not None:
            self._samples_log.release(self.samples.drop(newest_ms - horizon_ms))
            self._pods_log.release(self.pods.drop(newest_ms - average_horizon_ms))
            lifetimes = self.pods.lifetimes
            if lifetimes is not None and lifetimes.at_ms < newest_ms - horizon_ms:
                self._pods_log.release(self.pods.drop_lifetimes())

    def clear(self) -> None:
        """Drop all samples; keep names, because valid rows may need them."""
        self._samples_log.release(self.samples.rows)
        self._pods_log.release([row for _, row, _ in self.pods] + self.pods.drop_lifetimes())
        self.samples = SampleWindow()
        self.pods.clear()

    def _add_resources(self, sample: SampleFigures) -> None:
        more = sample.resources.difference(self.samples.resources)
        if more:
            self.samples.widen(sorted(more))
            self.pods.widen(len(more))

    def _check_samples(self, since_ms: int, limits: AggregateLimits) -> Refusal | None:
        if len(self.samples) < limits.samples_per_node:
            return None
        live = len(self.samples) - self.samples.find_index(since_ms)
        if live < limits.samples_per_node:
            return None
        return Refusal(
            "limit",
            f"samples_per_node: the node has {live} samples in its window; allowed are at most "
            f"{limits.samples_per_node}",
        )

    def _select_columns(
        self,
        sample: SampleFigures,
        newest_ms: int,
        rules: PoolRules,
        limits: AggregateLimits,
    ) -> "Refusal | _Columns":
        """Return the resources after a sample.

        Close to a limit, resources without a figure in the windows are dropped, as in a restart.
        """
        current_count = len(self.samples.resources)
        more = sample.resources.difference(self.samples.resources)
        count = current_count + len(more)
        lines = self.pods.size // (1 + current_count) + len(sample.members)
        is_far_below = lines * (1 + count) <= limits.pod_figures_per_node
        if is_far_below and count <= limits.resources_per_node:
            return _Columns(count)
        start = self.samples.find_index(newest_ms - rules.horizon_ms)
        keep = {column // 2 for column in find_measured(self.samples.figures(start))}
        for _, _, matrix in self.pods.select_since(newest_ms - rules.average_horizon_ms):
            keep.update(find_measured(matrix[:, 1:]))
        resources = sample.resources.union(self.samples.resources[index] for index in keep)
        if len(resources) > limits.resources_per_node:
            return Refusal(
                "limit",
                f"resources_per_node: with this sample the node has {len(resources)} resources in its "
                f"window; allowed are at most {limits.resources_per_node}",
            )
        return _Columns(len(resources), sorted(keep) if len(keep) < current_count else None)

    def _check_members(
        self, sample: SampleFigures, columns: "_Columns", since_ms: int, limits: AggregateLimits
    ) -> Refusal | None:
        is_far_below = len(self.pods.members) + len(sample.members) <= limits.safe_members
        lines = self.pods.size // (1 + len(self.samples.resources)) + len(sample.members)
        if is_far_below and lines * (1 + columns.resources) <= limits.pod_figures_per_node:
            return None
        samples = self.pods.select_since(since_ms)
        live = find_numbers(samples)
        members = {member for member, number in self.pods.members.items() if number in live}
        members.update(member for member, _ in sample.members)
        applications = sum(namespace == "" for namespace, *_ in members)
        characters = sum(len(part) for member in members for part in member)
        for name, used, allowed in (
            ("pods_per_node", len(members) - applications, limits.pods_per_node),
            ("host_applications_per_node", applications, limits.host_applications_per_node),
            ("name_characters_per_node", characters, limits.name_characters_per_node),
            (
                "pod_figures_per_node",
                (sum(len(matrix) for _, _, matrix in samples) + len(sample.members))
                * (1 + columns.resources),
                limits.pod_figures_per_node,
            ),
        ):
            if used > allowed:
                return Refusal(
                    "limit",
                    f"{name}: with this sample the node has {used} in its average window; allowed "
                    f"are at most {allowed}",
                )
        return None
