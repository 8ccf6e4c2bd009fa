"""The policy commands: what they print, what they write, and what they refuse to write."""

import getpass
import json
import socket
import threading
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from connectors.kafka.client import connect
from connectors.kafka.tail import Entry, read_entries
from connectors.kafka.topics import changelog_name
from connectors.process import wall_clock
from loadstream.commands import app
from loadstream.policy import records as policy_records
from schemas.base.message import Message
from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome
from schemas.messages.dead_letters import build_dead_letter
from schemas.messages.nodes import NodeState
from schemas.messages.objects import DisruptionBudget, NamespaceState, PriorityClassState
from schemas.messages.pods import Pod, PodLifecycle, PodRef
from schemas.messages.policies import DOCUMENT_BYTES_MAX, PolicyRecord
from schemas.policy import effective_yaml, read_policy
from schemas.settings.connection import KafkaSettings
from schemas.storage.rows import FailedClusterRow
from schemas.storage.tables import row_key
from schemas.topics.catalog import TOPIC_BY_NAME, TOPIC_OF
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker, eventually
from tests.connectors.kafka.messages import journal_batch

DOCUMENT = "# for the night\nloadAware:\n  usageThresholds: {cpu: 70}\n"


def run(*arguments: str, text: str | None = None) -> Result:
    """The command's result; an exception that is no exit fails the test."""
    group = "cluster" if arguments[0] in ("pause", "resume") else "policy"
    result = CliRunner().invoke(app, [group, *arguments], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(autouse=True)
def _stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that have just ticked have done so for as long as the test takes."""
    now_ms = wall_clock.now_ms()
    monkeypatch.setattr(wall_clock, "now_ms", lambda: now_ms)


@pytest.fixture
def policies(embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> KafkaSettings:
    """An embedded broker that the commands find by their settings, with clusters east and west."""
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", embedded.bootstrap_servers)
    make_seen(embedded.settings)
    return embedded.settings


@pytest.fixture
def policies_anywhere(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> KafkaSettings:
    """The embedded broker, and then a real Kafka, whose compacted topics have settings."""
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    make_seen(broker.settings)
    return broker.settings


def make_seen(settings: KafkaSettings) -> None:
    """A producer has named both clusters, and their workers have just ticked."""
    producer = Producer({**settings.librdkafka_options(), "log_level": 0})
    for cluster in ("east", "west"):
        home = partition_for(cluster.encode(), settings.partitions)
        node = encode(NodeState(cluster=cluster, node="n1", event="added"))
        producer.produce("node-state", node, key=cluster.encode(), partition=home)
        tick = encode(ClockTick(partition=home, now_ms=wall_clock.now_ms()))
        producer.produce("clock", tick, key=str(home).encode(), partition=home)
    assert producer.flush(60) == 0


def applied_up_to(settings: KafkaSettings, offset: int) -> None:
    """A worker has applied the policies of cluster east below an offset."""
    home = partition_for(b"east", settings.partitions)
    producer = Producer({**settings.librdkafka_options(), "log_level": 0})
    producer.produce("journal", journal_batch(home, {"policies": offset - 1}), partition=home)
    assert producer.flush(60) == 0


def write_dead_letter(settings: KafkaSettings, offset: int, reason: str) -> None:
    """A worker has refused a policy of cluster east."""
    home = partition_for(b"east", settings.partitions)
    letter = build_dead_letter(
        "policies", home, offset, None, b"east", b"", Refusal("invalid", reason)
    )
    options = {**settings.librdkafka_options(), "partitioner": "murmur2_random", "log_level": 0}
    producer = Producer(options)
    producer.produce("dead-letters", encode(letter), key=b"policies")
    assert producer.flush(60) == 0


def records(settings: KafkaSettings, cluster: str) -> list[PolicyRecord]:
    """What topic `policies` holds about a cluster, in the partition where its worker looks."""
    topic = TOPIC_BY_NAME["policies"]
    found = read_entries(connect(settings), topic, "beginning", follow=False)
    entries = [entry for entry in found if isinstance(entry, Entry) and entry.cluster == cluster]
    expected = partition_for(cluster.encode(), settings.partitions)
    assert all(entry.partition == expected for entry in entries)
    assert all(entry.key == cluster.encode() for entry in entries)
    return [entry.message for entry in entries]


def write(settings: KafkaSettings, partition: int, value: bytes, key: str) -> None:
    """One record, put where the caller says."""
    producer = Producer({**settings.librdkafka_options(), "log_level": 0})
    producer.produce("policies", value, key=key.encode(), partition=partition)
    assert producer.flush(60) == 0


def policy_file(directory: Path, text: str) -> str:
    path = directory / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_check_prints_a_policy_that_reads_back_to_the_same_one(tmp_path: Path) -> None:
    result = run("check", policy_file(tmp_path, DOCUMENT))
    assert result.exit_code == 0
    policy = read_policy(DOCUMENT)
    assert read_policy(result.stdout) == policy
    assert result.stdout.startswith(effective_yaml(policy))
    assert result.stdout.splitlines()[-1] == f"# digest: {policy.digest}"


def test_check_prints_every_error_with_file_line_and_path(tmp_path: Path) -> None:
    file = policy_file(tmp_path, "mode: on\nloadAware:\n  usageThreshold: {cpu: 70}\n")
    result = run("check", file)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        f"{file}:1: mode: found \"on\" (text); allowed is 'observe' or 'enforce'",
        f'{file}:3: loadAware.usageThreshold: unknown field; did you mean "usageThresholds"?',
        f"{file}: 2 errors",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: \xff", "which is not UTF-8"),
        (b"#" * (DOCUMENT_BYTES_MAX + 5), f"more than {DOCUMENT_BYTES_MAX} bytes"),
    ],
)
def test_check_refuses_binary_and_too_large_files(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(content)
    result = run("check", str(path))
    assert result.exit_code == 1
    assert message in result.stderr


def test_apply_writes_the_document_as_it_was_written(
    policies: KafkaSettings, tmp_path: Path
) -> None:
    file = policy_file(tmp_path, DOCUMENT)
    result = run("apply", "east", file, "--reason", "night shift")
    assert result.exit_code == 0, result.stderr
    assert read_policy(DOCUMENT).digest in result.stdout
    assert "observe: evictions are marked dry" in result.stdout
    (record,) = records(policies, "east")
    assert (record.document, record.reason, record.paused) == (DOCUMENT, "night shift", False)


def test_apply_writes_no_record_for_a_file_with_errors(
    policies: KafkaSettings, tmp_path: Path
) -> None:
    assert run("apply", "east", policy_file(tmp_path, "mode: enforced")).exit_code == 1
    assert records(policies, "east") == []


def test_pause_and_resume_repeat_the_newest_document(
    policies_anywhere: KafkaSettings, tmp_path: Path
) -> None:
    run("apply", "east", policy_file(tmp_path, "mode: enforce"))
    run("apply", "west", policy_file(tmp_path, ""))
    run("apply", "east", policy_file(tmp_path, DOCUMENT))
    assert run("pause", "east", "--reason", "incident").stdout == "cluster east is paused\n"
    assert run("resume", "east").stdout == "cluster east is running\n"
    written = [(r.document, r.paused, r.reason) for r in records(policies_anywhere, "east")]
    assert written == [
        ("mode: enforce", False, ""),
        (DOCUMENT, False, ""),
        (DOCUMENT, True, "incident"),
        (DOCUMENT, False, ""),
    ]
    assert len(records(policies_anywhere, "west")) == 1


def test_a_cluster_without_a_policy_can_be_paused(policies: KafkaSettings) -> None:
    assert run("resume", "east").stdout == (
        "cluster east is already running; nothing was written\n"
    )
    assert run("pause", "east").exit_code == 0
    assert run("pause", "east").stdout == "cluster east is already paused; nothing was written\n"
    assert [(r.document, r.paused) for r in records(policies, "east")] == [("", True)]


def test_resuming_a_cluster_that_is_set_apart_repeats_its_policy(
    policies: KafkaSettings, tmp_path: Path
) -> None:
    run("apply", "east", policy_file(tmp_path, DOCUMENT))
    home = partition_for(b"east", policies.partitions)
    producer = Producer({**policies.librdkafka_options(), "log_level": 0})
    changelog = changelog_name("cluster")
    key = row_key(home, "east", "failed_clusters").encode()
    apart = encode(FailedClusterRow(cluster="east", set_apart=True))
    producer.produce(changelog, apart, key=key, partition=home)
    assert producer.flush(60) == 0
    assert run("resume", "east").stdout == (
        "cluster east is running; it was set apart after errors and is tried again\n"
    )
    assert [r.document for r in records(policies, "east")] == [DOCUMENT, DOCUMENT]
    producer.produce(changelog, None, key=key, partition=home)
    assert producer.flush(60) == 0
    assert run("resume", "east").stdout.endswith("is already running; nothing was written\n")


def test_a_new_policy_does_not_end_a_pause(policies: KafkaSettings, tmp_path: Path) -> None:
    run("pause", "east")
    result = run("apply", "east", policy_file(tmp_path, DOCUMENT))
    assert "stays paused" in result.stdout
    assert [r.paused for r in records(policies, "east")] == [True, True]


def test_history_shows_each_policy_of_the_cluster_oldest_first(
    policies: KafkaSettings, tmp_path: Path
) -> None:
    assert run("history", "east").stdout == (
        "cluster east has no policy: the default policy applies\n"
    )
    run("apply", "west", policy_file(tmp_path, ""))
    run("apply", "east", policy_file(tmp_path, DOCUMENT), "--reason", "night shift")
    run("pause", "east")
    first, second = run("history", "east").stdout.splitlines()
    digest = read_policy(DOCUMENT).digest
    assert f"{digest}  observe  running  not applied yet  by " in first
    assert first.endswith(": night shift")
    assert f"{digest}  observe  paused  not applied yet  by " in second
    assert "    # for the night" in run("history", "east", "--document").stdout.splitlines()
    whole = [json.loads(line) for line in run("history", "east", "--json").stdout.splitlines()]
    assert [(each["digest"], each["paused"]) for each in whole] == [(digest, False), (digest, True)]


def test_history_says_what_was_applied_and_what_was_refused(
    policies: KafkaSettings, tmp_path: Path
) -> None:
    for _ in range(3):
        run("apply", "east", policy_file(tmp_path, DOCUMENT))
    applied_up_to(policies, 2)
    write_dead_letter(policies, 1, "the policy was not applied")
    lines = run("history", "east").stdout.splitlines()
    states = [line.split("running  ")[1].split("  by ")[0] for line in lines]
    assert states == ["applied", "refused: the policy was not applied", "not applied yet"]


def test_apply_waits_until_a_worker_has_applied_the_policy(
    policies: KafkaSettings, tmp_path: Path
) -> None:
    def work() -> None:
        assert eventually(lambda: len(records(policies, "east")) == 1)
        applied_up_to(policies, 1)

    worker = threading.Thread(target=work)
    worker.start()
    result = run("apply", "east", policy_file(tmp_path, DOCUMENT), "--wait")
    worker.join()
    assert (result.exit_code, result.stderr) == (0, "")


def test_apply_that_waits_reports_a_refusal(policies: KafkaSettings, tmp_path: Path) -> None:
    def work() -> None:
        assert eventually(lambda: len(records(policies, "east")) == 1)
        write_dead_letter(policies, 0, "the policy was not applied: thresholds")

    worker = threading.Thread(target=work)
    worker.start()
    result = run("apply", "east", policy_file(tmp_path, DOCUMENT), "--wait")
    worker.join()
    assert result.exit_code == 1
    assert result.stderr == "error: refused: the policy was not applied: thresholds\n"


def sent(settings: KafkaSettings, *messages: Message) -> None:
    """Records of cluster east."""
    producer = Producer({**settings.librdkafka_options(), "log_level": 0})
    home = partition_for(b"east", settings.partitions)
    for message in messages:
        topic = TOPIC_OF[type(message)]
        producer.produce(topic, encode(message), key=b"east", partition=home)
    assert producer.flush(60) == 0


def seen_pods(settings: KafkaSettings, *schedulers: str) -> None:
    """Pods of cluster east, each of a scheduler."""
    for number, scheduler in enumerate(schedulers):
        pod = Pod(namespace="a", name=f"p{number}", uid=f"u{number}", scheduler=scheduler)
        sent(settings, PodLifecycle(cluster="east", event="running", pod=pod))


REBALANCING = "rebalance: {lowThresholds: {cpu: 40}, highThresholds: {cpu: 70}}\n"


@pytest.mark.parametrize("document", ["", REBALANCING + "plugins: {balance: [LowNodeLoad]}\n"])
def test_a_warning_names_schedulers_that_rebalancing_does_not_reach(
    policies: KafkaSettings, tmp_path: Path, document: str
) -> None:
    seen_pods(policies, "default-scheduler", "", "volcano")
    file = policy_file(tmp_path, document)
    for arguments in (("check", file, "--cluster", "east"), ("apply", "east", file)):
        result = run(*arguments)
        assert result.exit_code == 0
        assert (
            "none of 3 pods has a scheduler of migration.schedulerNames (loadstream, koord-scheduler); their schedulers: "
            "default-scheduler (2), volcano (1)" in result.stderr
        )


@pytest.mark.parametrize(
    "document",
    [
        "plugins: {balance: [LowNodeLoad]}\n",
        "plugins: {balance: []}\n",
        REBALANCING + "otherSchedulers: evictDirectly\n",
        REBALANCING + "migration: {schedulerNames: [volcano]}\n",
        REBALANCING + "migration: {defaultJobMode: EvictDirectly}\n",
    ],
)
def test_no_warning_is_given_for_a_policy_that_reaches_pods_or_moves_none(
    policies: KafkaSettings, tmp_path: Path, document: str
) -> None:
    seen_pods(policies, "default-scheduler", "volcano")
    result = run("check", policy_file(tmp_path, document), "--cluster", "east")
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_warning_names_records_that_no_producer_has_sent(
    policies: KafkaSettings, tmp_path: Path
) -> None:
    text = (
        "evictor: {namespaceLabelSelector: {matchLabels: {a: b}}, priorityThreshold: {name: high}}\n"
        "migration: {priorityThreshold: {name: system-cluster-critical}}\n"
    )
    file = policy_file(tmp_path, text)
    for arguments in (("check", file, "--cluster", "east"), ("apply", "east", file)):
        result = run(*arguments)
        assert result.exit_code == 0
        assert "no record of kind namespace on pod-lifecycle" in result.stderr
        assert "evictor.priorityThreshold names class high, and no record" in result.stderr
        assert "system-cluster-critical" not in result.stderr
        said = json.loads(run(*arguments, "--json").stdout)["warnings"]
        assert [f"warning: {each}" for each in said] == result.stderr.splitlines()
    sent(
        policies,
        NamespaceState(cluster="east", name="shop", labels={"a": "b"}),
        PriorityClassState(cluster="east", name="high", value=5),
    )
    assert run("check", file, "--cluster", "east").stderr == ""


def test_warnings_name_contradictions_between_policy_and_cluster(
    policies: KafkaSettings, tmp_path: Path
) -> None:
    def warned(text: str) -> list[str]:
        result = run("check", policy_file(tmp_path, REBALANCING + text), "--cluster", "east")
        return [line.removeprefix("warning: ") for line in result.stderr.splitlines()]

    seen_pods(policies, "loadstream")
    blocked = DisruptionBudget(
        cluster="east", namespace="shop", name="web", expected_pods=3, desired_healthy=3
    )
    sent(
        policies,
        blocked,
        blocked.model_copy(update={"name": "open", "desired_healthy": 2}),
        NamespaceState(cluster="east", name="shop"),
    )
    of_budgets = (
        "evictions are forbidden by 1 disruption budget, because all pods must be healthy: "
        "shop/web; pods that they cover stay on hot nodes"
    )
    assert warned("") == [of_budgets]
    assert warned("migration: {schedulerNames: [loadstream, volcano]}") == [
        "migration.schedulerNames names volcano, and no pod has this scheduler", of_budgets,
    ]  # fmt: skip
    assert warned("migration: {namespaces: {include: [shop, shp]}}") == [
        "migration.namespaces.include names shp, and the cluster has no namespace of that name",
        of_budgets,
    ]
    (_, no_evictor) = warned("mode: enforce")
    assert no_evictor.startswith("mode is enforce, but no evictor has reported on a command so far")
    pod = PodRef(namespace="a", name="p0", uid="u0")
    outcome = CommandOutcome(
        command_id="e-12345678",
        cluster="east",
        command="evict",
        pod=pod,
        result="dry",
        happened_at_ms=wall_clock.now_ms(),
    )
    sent(policies, outcome)
    assert warned("mode: enforce") == [of_budgets]


def test_check_and_apply_answer_in_json(policies: KafkaSettings, tmp_path: Path) -> None:
    file = policy_file(tmp_path, DOCUMENT)
    digest = read_policy(DOCUMENT).digest
    checked = json.loads(run("check", file, "--json").stdout)
    assert (checked["digest"], checked["warnings"]) == (digest, [])
    applied = json.loads(run("apply", "east", file, "--json").stdout)
    assert (applied["cluster"], applied["digest"], applied["applied"]) == ("east", digest, False)


@pytest.mark.parametrize("command", ["apply", "pause", "resume"])
def test_an_unknown_cluster_needs_the_option_new(
    policies: KafkaSettings, tmp_path: Path, command: str
) -> None:
    file = [policy_file(tmp_path, DOCUMENT)] if command == "apply" else []
    assert run("pause", "eats", "--new").exit_code == 0
    assert run(command, "eats", *file).stderr.endswith("use --new for a new cluster\n")
    assert len(records(policies, "eats")) == 1
    assert run(command, "eats", *file, "--new").exit_code == 0


@pytest.mark.parametrize("command", ["apply", "history", "pause"])
def test_an_unknown_cluster_has_its_own_exit_code(
    policies: KafkaSettings, tmp_path: Path, command: str
) -> None:
    file = [policy_file(tmp_path, DOCUMENT)] if command == "apply" else []
    result = run(command, "eats", *file)
    assert result.exit_code == 3
    assert "Cluster eats has never been seen: no producer names it. Did you mean east?" in (
        result.stderr
    )


@pytest.mark.parametrize("command", ["apply", "history", "resume"])
def test_a_silent_worker_is_reported_first(
    policies: KafkaSettings, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = wall_clock.now_ms()
    monkeypatch.setattr(wall_clock, "now_ms", lambda: now_ms + 7_200_000)
    file = [policy_file(tmp_path, DOCUMENT)] if command == "apply" else []
    result = run(command, "east", *file)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: No worker has written for 2h")


def test_records_that_a_worker_refuses_are_ignored(policies: KafkaSettings, tmp_path: Path) -> None:
    run("apply", "east", policy_file(tmp_path, DOCUMENT))
    home = partition_for(b"east", policies.partitions)
    stranger = PolicyRecord(
        cluster="east", document="", paused=True, applied_at_ms=1_760_000_000_000
    )
    write(policies, (home + 1) % policies.partitions, encode(stranger), "east")
    write(policies, home, encode(stranger), _key_beside("east", policies.partitions))
    write(policies, home, b'{"schema_version": 2}', "east")
    result = run("pause", "east")
    assert result.stdout == "cluster east is paused\n"
    assert len([line for line in result.stderr.splitlines() if "is ignored" in line]) == 3
    newest = run("history", "east").stdout.splitlines()[-1]
    assert f"{read_policy(DOCUMENT).digest}  observe  paused" in newest


def _key_beside(cluster: str, partitions: int) -> str:
    """Another key that belongs to the partition of this cluster."""
    home = partition_for(cluster.encode(), partitions)
    names = (f"other-{number}" for number in range(1_000))
    return next(name for name in names if partition_for(name.encode(), partitions) == home)


def test_a_document_that_this_version_cannot_read_can_still_be_paused(
    policies: KafkaSettings,
) -> None:
    document = "fieldOfTheFuture: 1\n"
    record = PolicyRecord(cluster="east", document=document, applied_at_ms=1_760_000_000_000)
    write(policies, partition_for(b"east", policies.partitions), encode(record), "east")
    assert run("pause", "east").exit_code == 0
    assert [r.document for r in records(policies, "east")] == [document, document]
    (problem,) = json.loads(run("history", "east", "--json").stdout.splitlines()[-1])["problems"]
    assert problem.startswith("line 1: fieldOfTheFuture: ")
    assert "invalid" in run("history", "east").stdout


def test_a_pause_does_not_repeat_a_refused_policy(policies: KafkaSettings, tmp_path: Path) -> None:
    run("apply", "east", policy_file(tmp_path, DOCUMENT))
    unknown = PolicyRecord(
        cluster="east",
        document="fieldOfTheFuture: 1\n",
        paused=True,
        applied_at_ms=1_760_000_000_000,
    )
    write(policies, partition_for(b"east", policies.partitions), encode(unknown), "east")
    write_dead_letter(policies, 1, "the policy was not applied")
    result = run("pause", "east")
    assert result.stdout == "cluster east is paused\n"
    assert "is ignored: refused: the policy was not applied" in result.stderr
    assert records(policies, "east")[-1].document == DOCUMENT


def test_a_warning_names_line_and_field(policies: KafkaSettings, tmp_path: Path) -> None:
    asks = (
        "loadAware: {aggregated: {usageThresholds: {cpu: 70}, usageAggregationType: p95, "
        "usageAggregatedDuration: 15m}}\n"
    )
    file = policy_file(tmp_path, asks)
    for arguments in (("check", file), ("apply", "east", file)):
        result = run(*arguments)
        assert result.exit_code == 0
        place = "line 1: loadAware.aggregated.usageAggregatedDuration: found 15m"
        assert f"warning: {place}" in result.stderr
        (said,) = json.loads(run(*arguments, "--json").stdout)["warnings"]
        assert said.startswith(place)
    collected = asks + "collect: {metricAggregatePolicy: {durations: [15m]}}\n"
    result = run("check", policy_file(tmp_path, collected))
    assert (result.exit_code, result.stderr) == (0, "")


def apply_document(tmp_path: Path, document: str, *options: str) -> None:
    result = run("apply", "east", policy_file(tmp_path, document), *options)
    assert result.exit_code == 0, result.stderr


def test_show_prints_the_policy_its_digest_its_author_and_the_reason(
    policies: KafkaSettings, tmp_path: Path
) -> None:
    apply_document(tmp_path, DOCUMENT, "--by", "ana@ops", "--reason", "night shift")
    run("pause", "east", "--by", "ben@ops", "--reason", "incident 4711")
    applied_up_to(policies, 2)
    shown = run("show", "east").stdout
    digest = read_policy(DOCUMENT).digest
    assert shown.splitlines()[0] == f"# cluster east: policy {digest}, mode observe, applied"
    assert "by ana@ops: night shift" in shown.splitlines()[1]
    assert "by ben@ops: incident 4711" in shown.splitlines()[2]
    assert shown.endswith(DOCUMENT)
    told = json.loads(run("show", "east", "--json").stdout)
    assert (told["digest"], told["paused"], told["applied_by"], told["policy"]) == (
        digest, True, "ana@ops", DOCUMENT,
    )  # fmt: skip


@pytest.mark.usefixtures("policies")
def test_show_prints_the_default_policy_without_a_record() -> None:
    result = run("show", "east")
    assert (result.exit_code, read_policy("").digest in result.stdout) == (0, True)


def test_a_record_names_user_and_host_or_the_service_account_of_the_pod(
    policies: KafkaSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ana")
    apply_document(tmp_path, DOCUMENT)
    token = tmp_path / "token"
    name = "system:serviceaccount:loadstream:policies"
    claims = urlsafe_b64encode(json.dumps({"sub": name}).encode()).decode().rstrip("=")
    token.write_text(f"head.{claims}.signature")
    monkeypatch.setattr(policy_records, "SERVICE_TOKEN", token)
    run("pause", "east")
    assert [record.applied_by for record in records(policies, "east")] == [
        f"ana@{socket.gethostname()}", name,
    ]  # fmt: skip


@pytest.mark.usefixtures("policies")
def test_rollback_applies_the_policy_before_the_present_one_again(tmp_path: Path) -> None:
    apply_document(tmp_path, "mode: enforce\n")
    apply_document(tmp_path, DOCUMENT)
    run("pause", "east")
    result = run("rollback", "east", "--by", "ana")
    assert result.exit_code == 0, result.stderr
    told = json.loads(run("show", "east", "--json").stdout)
    assert (told["policy"], told["paused"], told["applied_by"]) == ("mode: enforce\n", True, "ana")
    run("rollback", "east")
    assert json.loads(run("show", "east", "--json").stdout)["policy"] == DOCUMENT


@pytest.mark.usefixtures("policies")
def test_rollback_and_diff_without_an_earlier_policy_fail(tmp_path: Path) -> None:
    apply_document(tmp_path, DOCUMENT)
    for command in (["rollback", "east"], ["diff", "east"]):
        result = run(*command)
        assert (result.exit_code, "policy history east" in result.stderr) == (1, True)


@pytest.mark.usefixtures("policies")
def test_diff_compares_with_the_policy_before_with_an_earlier_one_and_with_a_file(
    tmp_path: Path,
) -> None:
    for percent in (60, 65, 70):
        apply_document(tmp_path, f"loadAware: {{usageThresholds: {{cpu: {percent}}}}}\n")
    path = "loadAware.usageThresholds.cpu"
    assert run("diff", "east").stdout == f"{path}: 65 -> 70\n"
    file = policy_file(tmp_path, "mode: enforce\nloadAware: {usageThresholds: {cpu: 70}}\n")
    assert run("diff", "east", file).stdout == "mode: observe -> enforce\n"
    told = json.loads(run("diff", "east", file, "--json").stdout)
    assert told == {"path": "mode", "before": "observe", "after": "enforce"}
    same = policy_file(tmp_path, "# the same\nloadAware: {usageThresholds: {cpu: 70}}\n")
    assert run("diff", "east", same).stdout == "the policies have the same effect\n"
