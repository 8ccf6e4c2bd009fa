"""`loadstream profile` on an embedded broker that holds the changelogs of a worker."""

import json

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from connectors import wall_clock
from connectors.cli import app
from connectors.kafka.topics import changelog_name
from connectors.profiles.report import SCALING_FACTORS_ANNOTATION as FACTORS
from schemas.base import Message
from schemas.clock import ClockTick
from schemas.codec import encode
from schemas.nodes import NodeState
from schemas.partitions import partition_for
from schemas.policy import LoadAwareSchedulingArgs, read_policy
from schemas.usage_moments import (
    FleetFigures,
    FleetUsageRow,
    OwnerFigures,
    OwnerUsageRow,
    PastPods,
)
from streams.inventory.demand import pod_demand
from streams.inventory.estimate import Estimator
from tests.conftest import RunningBroker
from tests.streams.cluster.builders import pod

BLUE = "blue"
ASKED_MS = 1_795_000_000_000
_FIGURES = FleetFigures(usage_ppm=500_000, variance_ppm=40_000, spread_ppm=90_000)
_OWN = FleetFigures(usage_ppm=200_000, variance_ppm=10_000, spread_ppm=2_500)
_EXPECTED = FleetFigures(usage_ppm=230_000, variance_ppm=13_000, spread_ppm=6_400)


def _fleet(cluster: str = BLUE) -> FleetUsageRow:
    return FleetUsageRow(cluster=cluster, renewed_at_ms=ASKED_MS, resources={"cpu": _FIGURES})


def _owner(
    name: str, *, pods: int = 7, weight_ppm: int = 900_000, namespace: str = "shop"
) -> OwnerUsageRow:
    figures = OwnerFigures(
        pods_milli=pods * 1_000, own=_OWN, weight_ppm=weight_ppm, expected=_EXPECTED
    )
    gone = PastPods(pods_milli=2_500, shares=1, squares=1, variances=1)
    nothing = PastPods(pods_milli=0, shares=0, squares=0, variances=0)
    return OwnerUsageRow(
        cluster=BLUE, namespace=namespace, kind="Deployment", name=name, seen_at_ms=ASKED_MS,
        figures={"cpu": figures}, past={"cpu": (gone, nothing, nothing)},
    )  # fmt: skip


class Changelogs:
    """A broker whose changelogs a test fills."""

    def __init__(self, broker: RunningBroker) -> None:
        options = {**broker.settings.librdkafka_options(), "log_level": 0}
        self._producer = Producer(options)
        self._partitions = broker.settings.partitions
        self.write("clock", "", ClockTick(partition=self._partition(BLUE), now_ms=ASKED_MS))
        self.write("node-state", "", NodeState(cluster=BLUE, node="n1", event="added"))

    def _partition(self, cluster: str) -> int:
        return partition_for(cluster.encode(), self._partitions)

    def write(self, topic: str, key: str, row: Message | None, cluster: str = BLUE) -> None:
        partition = self._partition(BLUE)
        value = None if row is None else encode(row)
        whole = f"{partition}/{cluster}/{key}" if key else str(partition)
        self._producer.produce(topic, value, key=whole.encode(), partition=partition)
        assert self._producer.flush(60) == 0

    def fleet(self, row: FleetUsageRow | None, cluster: str = BLUE) -> None:
        self.write(changelog_name("fleet_usage"), "fleet", row, cluster)

    def owner(self, key: str, row: OwnerUsageRow | None) -> None:
        self.write(changelog_name("owner_usage"), key, row)


@pytest.fixture
def changelogs(embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Changelogs:
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", embedded.bootstrap_servers)
    monkeypatch.setenv("LOADSTREAM_KAFKA_PARTITIONS", str(embedded.settings.partitions))
    monkeypatch.setattr(wall_clock, "now_ms", lambda: ASKED_MS)
    return Changelogs(embedded)


def ask(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["profile", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_that_nothing_is_known_is_said_with_what_to_do(changelogs: Changelogs) -> None:
    changelogs.fleet(_fleet("blue-2"), "blue-2")
    result = ask(BLUE)
    assert result.exit_code == 1
    assert "Nothing is known of what pods of cluster blue use" in result.output
    assert "while plugins.score or plugins.balance enables OverutilizationRisk" in result.output


def test_a_cluster_is_answered_with_its_fleet_and_its_owners(changelogs: Changelogs) -> None:
    changelogs.fleet(_fleet())
    result = ask(BLUE)
    assert result.exit_code == 0
    assert "expected to use 50 % of its request of cpu, give or take 30 points" in result.output
    assert "Nothing is known of single owners" in result.output
    for name, pods in (("few", 3), ("many", 30)):
        changelogs.owner(f"shop/Deployment/{name}", _owner(name, pods=pods))
    lines = ask(BLUE).output.splitlines()
    assert [line.split(":")[0] for line in lines[3:]] == [
        "Deployment shop/many",
        "Deployment shop/few",
    ]


def test_a_cluster_that_only_a_policy_names_is_said_to_be_unseen(changelogs: Changelogs) -> None:
    changelogs.fleet(_fleet("blu"), "blu")
    said = ask("blu").output
    assert "Cluster blu has never been seen: no producer names it. Did you mean blue?" in said


def test_an_owner_is_answered_with_what_its_next_pod_is_expected_to_use(
    changelogs: Changelogs,
) -> None:
    changelogs.fleet(_fleet())
    changelogs.owner("shop/Deployment/web", _owner("web"))
    changelogs.owner("shop/Deployment/api", _owner("api", weight_ppm=0))
    for name in ("web", "shop/web", "Deployment/web", "shop/Deployment/web"):
        output = ask(BLUE, name).output
        assert "7.0 measured, which use 20 % of their requests of cpu" in output
        assert "weight 90 % against the cluster's" in output
        assert "next pod is expected to use 23 % of its request of cpu" in output
        assert "2.5 for a day" in output
    assert "as much cpu as any pod of the cluster" in ask(BLUE, "api").output
    unknown = ask(BLUE, "db")
    assert unknown.exit_code == 1
    assert "Nothing is known of an owner db" in unknown.output


def test_what_is_known_is_written_as_load_aware_estimation_takes_it(
    changelogs: Changelogs,
) -> None:
    changelogs.fleet(_fleet())
    changelogs.owner("shop/Deployment/web", _owner("web"))
    (line,) = (each for each in ask(BLUE).output.splitlines() if "estimatedScalingFactors" in each)
    document = line.partition("`")[2].partition("`")[0]
    assert read_policy(document).load_aware.estimated_scaling_factors["cpu"] == 50
    annotation = f"{FACTORS}: '{{\"cpu\":23}}'"
    assert annotation in ask(BLUE, "web").output
    assert (
        "follows what is learned with `loadAware: {estimateBy: fleet}`, where "
        "`estimateMarginPercent` of the deviation is added."
    ) in ask(BLUE).output
    assert "{estimateBy: owner}" in ask(BLUE, "web").output
    custom = LoadAwareSchedulingArgs(allow_customize_estimation=True)
    web = pod(annotations={FACTORS: '{"cpu":23}'})
    demand = pod_demand(web)
    estimated = Estimator(custom).estimate(web, demand, "prod")
    assert dict(zip(Estimator(custom).resources, estimated, strict=True))["cpu"] == 230


def test_a_factor_that_cannot_say_what_is_expected_is_said_to_say_less(
    changelogs: Changelogs,
) -> None:
    much = _FIGURES.model_copy(update={"usage_ppm": 1_350_000})
    changelogs.fleet(_fleet().model_copy(update={"resources": {"cpu": _FIGURES, "memory": much}}))
    said = "{cpu: 50, memory: 100}}` (less of memory: a factor is 100 at most), and follows"
    assert said in ask(BLUE).stdout


def test_the_newest_row_of_an_owner_holds_and_one_that_is_removed_is_gone(
    changelogs: Changelogs,
) -> None:
    changelogs.fleet(_fleet())
    changelogs.owner("shop/Deployment/web", _owner("web", pods=7))
    changelogs.owner("shop/Deployment/web", _owner("web", pods=8))
    changelogs.owner("shop/Deployment/api", _owner("api"))
    changelogs.owner("shop/Deployment/api", None)
    said = json.loads(ask(BLUE, "--json").output)
    assert [row["name"] for row in said["owners"]] == ["web"]
    assert said["owners"][0]["figures"]["cpu"]["pods_milli"] == 8_000
    assert said["fleet"]["resources"]["cpu"]["usage_ppm"] == 500_000
    assert said["known"] is True
