"""The policy commands: what they print, what they write and what they refuse."""

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
from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.dead_letters import build_dead_letter
from schemas.messages.nodes import NodeState
from schemas.messages.policies import DOCUMENT_BYTES_MAX, PolicyRecord
from schemas.policy import effective_yaml, read_policy
from schemas.settings.connection import KafkaSettings
from schemas.storage.rows import FailedClusterRow
from schemas.storage.tables import row_key
from schemas.topics.catalog import TOPIC_BY_NAME
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker, eventually
from tests.connectors.kafka.messages import journal_batch

DOCUMENT = "# for the night\nloadAware:\n  usageThresholds: {cpu: 70}\n"


def run(*arguments: str, text: str | None = None) -> Result:
    """Run a command; an exception other than an exit fails the test."""
    group = "cluster" if arguments[0] in ("pause", "resume") else "policy"
    result = CliRunner().invoke(app, [group, *arguments], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(autouse=True)
def _stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock, so that the ticks of the workers stay recent during the test."""
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
    """The embedded broker, then a real Kafka, where compacted topics have settings."""
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    make_seen(broker.settings)
    return broker.settings


def make_seen(settings: KafkaSettings) -> None:
    """Write a record of each cluster and a tick of each worker."""
    producer = Producer({**settings.librdkafka_options(), "log_level": 0})
    for cluster in ("east", "west"):
        home = partition_for(cluster.encode(), settings.partitions)
        node = encode(NodeState(cluster=cluster, node="n1", event="added"))
        producer.produce("node-state", node, key=cluster.encode(), partition=home)
        tick = encode(ClockTick(partition=home, now_ms=wall_clock.now_ms()))
        producer.produce("clock", tick, key=str(home).encode(), partition=home)
    assert producer.flush(60) == 0


def applied_up_to(settings: KafkaSettings, offset: int) -> None:
    """Write the journal of a worker that applied the policies of cluster east below an offset."""
    home = partition_for(b"east", settings.partitions)
    producer = Producer({**settings.librdkafka_options(), "log_level": 0})
    producer.produce("journal", journal_batch(home, {"policies": offset - 1}), partition=home)
    assert producer.flush(60) == 0


def write_dead_letter(settings: KafkaSettings, offset: int, reason: str) -> None:
    """Write the dead letter of a policy of cluster east."""
    home = partition_for(b"east", settings.partitions)
    letter = build_dead_letter(
        "policies", home, offset, None, b"east", b"", Refusal("invalid", reason)
    )
    options = {**settings.librdkafka_options(), "partitioner": "murmur2_random", "log_level": 0}
    producer = Producer(options)
    producer.produce("dead-letters", encode(letter), key=b"policies")
    assert producer.flush(60) == 0


def records(settings: KafkaSettings, cluster: str) -> list[PolicyRecord]:
    """Return the records of `policies` of a cluster, which must be in the partition of the cluster."""
    topic = TOPIC_BY_NAME["policies"]
    items = read_entries(connect(settings), topic, "beginning", follow=False)
    entries = [entry for entry in items if isinstance(entry, Entry) and entry.cluster == cluster]
    expected = partition_for(cluster.encode(), settings.partitions)
    assert all(entry.partition == expected for entry in entries)
    assert all(entry.key == cluster.encode() for entry in entries)
    return [entry.message for entry in entries]


def write(settings: KafkaSettings, partition: int, value: bytes, key: str) -> None:
    """Write one record to the given topic and partition."""
    producer = Producer({**settings.librdkafka_options(), "log_level": 0})
    producer.produce("policies", value, key=key.encode(), partition=partition)
    assert producer.flush(60) == 0


def policy_file(directory: Path, text: str) -> str:
    path = directory / "policy.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_check_prints_a_policy_that_reads_back_to_the_same_one(tmp_path: Path) -> None:
    file = policy_file(tmp_path, DOCUMENT)
    verdict, *differences = run("check", file).stdout.splitlines()
    assert verdict.startswith(f"valid; no warnings; {len(differences)} field")
    assert any("loadAware.usageThresholds" in difference for difference in differences)
    result = run("check", file, "--all")
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
    assert run("apply", "east", policy_file(tmp_path, "mode: enforced")).exit_code == 1
    assert records(policies, "east") == [record]
    run("pause", "east")
    applied = json.loads(run("apply", "east", policy_file(tmp_path, DOCUMENT), "--json").stdout)
    assert (applied["digest"], applied["paused"], applied["applied"]) == (
        read_policy(DOCUMENT).digest, True, False,
    )  # fmt: skip
    assert records(policies, "east")[-1].paused


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
    assert [(row["digest"], row["paused"]) for row in whole] == [(digest, False), (digest, True)]


def test_clusters_that_are_unknown_or_have_a_silent_worker_are_reported(
    policies: KafkaSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in (["apply", "eats", policy_file(tmp_path, DOCUMENT)], ["history", "eats"]):
        result = run(*arguments)
        assert result.exit_code == 3
        assert "Did you mean east?" in result.stderr
    assert records(policies, "eats") == []
    assert run("pause", "eats", "--new").exit_code == 0
    assert len(records(policies, "eats")) == 1
    now_ms = wall_clock.now_ms()
    monkeypatch.setattr(wall_clock, "now_ms", lambda: now_ms + 7_200_000)
    result = run("history", "east")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: No worker has written for 2h")


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


def test_check_and_apply_warn_about_unmet_requirements(
    policies: KafkaSettings, tmp_path: Path
) -> None:
    file = policy_file(tmp_path, "evictor: {priorityThreshold: {name: high}}\n")
    for arguments in (("check", file, "--cluster", "east"), ("apply", "east", file)):
        result = run(*arguments)
        assert result.exit_code == 0
        assert "evictor.priorityThreshold names class high" in result.stderr
        (warning,) = json.loads(run(*arguments, "--json").stdout)["warnings"]
        assert result.stderr == f"warning: {warning}\n"


def test_records_that_a_worker_refuses_are_ignored(policies: KafkaSettings, tmp_path: Path) -> None:
    run("apply", "east", policy_file(tmp_path, DOCUMENT))
    home = partition_for(b"east", policies.partitions)
    stranger = PolicyRecord(
        cluster="east", document="", paused=True, applied_at_ms=1_760_000_000_000
    )
    write(policies, (home + 1) % policies.partitions, encode(stranger), "east")
    write(policies, home, encode(stranger), _key_of_same_partition("east", policies.partitions))
    write(policies, home, b'{"schema_version": 2}', "east")
    result = run("pause", "east")
    assert result.stdout == "cluster east is paused\n"
    assert len([line for line in result.stderr.splitlines() if "is ignored" in line]) == 3
    newest = run("history", "east").stdout.splitlines()[-1]
    assert f"{read_policy(DOCUMENT).digest}  observe  paused" in newest


def _key_of_same_partition(cluster: str, partitions: int) -> str:
    """Return another key that belongs to the partition of this cluster."""
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


def test_check_names_line_and_field_of_a_warning(tmp_path: Path) -> None:
    asks = (
        "loadAware: {aggregated: {usageThresholds: {cpu: 70}, usageAggregationType: p95, "
        "usageAggregatedDuration: 15m}}\n"
    )
    result = run("check", policy_file(tmp_path, asks))
    assert result.exit_code == 0
    assert "line 1: loadAware.aggregated.usageAggregatedDuration: found 15m" in result.stderr
    checked = json.loads(run("check", policy_file(tmp_path, DOCUMENT), "--json").stdout)
    assert (checked["digest"], checked["warnings"]) == (read_policy(DOCUMENT).digest, [])


def test_the_author_is_the_service_account_of_the_pod_or_user_and_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ana")
    assert policy_records.find_author() == f"ana@{socket.gethostname()}"
    token = tmp_path / "token"
    name = "system:serviceaccount:loadstream:policies"
    claims = urlsafe_b64encode(json.dumps({"sub": name}).encode()).decode().rstrip("=")
    token.write_text(f"head.{claims}.signature")
    monkeypatch.setattr(policy_records, "SERVICE_TOKEN", token)
    assert policy_records.find_author() == name


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
    shown = json.loads(run("show", "east", "--json").stdout)
    assert (shown["digest"], shown["paused"], shown["applied_by"], shown["policy"]) == (
        digest, True, "ana@ops", DOCUMENT,
    )  # fmt: skip


@pytest.mark.usefixtures("policies")
def test_rollback_applies_the_previous_policy_again(tmp_path: Path) -> None:
    assert read_policy("").digest in run("show", "east").stdout
    apply_document(tmp_path, "mode: enforce\n")
    for command in (["rollback", "east"], ["diff", "east"]):
        assert run(*command).exit_code == 1
    apply_document(tmp_path, DOCUMENT)
    run("pause", "east")
    result = run("rollback", "east", "--by", "ana")
    assert result.exit_code == 0, result.stderr
    row = json.loads(run("show", "east", "--json").stdout)
    assert (row["policy"], row["paused"], row["applied_by"]) == ("mode: enforce\n", True, "ana")
    run("rollback", "east")
    assert json.loads(run("show", "east", "--json").stdout)["policy"] == DOCUMENT


@pytest.mark.usefixtures("policies")
def test_diff_compares_with_the_previous_policy_an_earlier_policy_and_a_file(
    tmp_path: Path,
) -> None:
    for percent in (60, 65, 70):
        apply_document(tmp_path, f"loadAware: {{usageThresholds: {{cpu: {percent}}}}}\n")
    path = "loadAware.usageThresholds.cpu"
    assert run("diff", "east").stdout == f"{path}: 65 -> 70\n"
    file = policy_file(tmp_path, "mode: enforce\nloadAware: {usageThresholds: {cpu: 70}}\n")
    assert run("diff", "east", file).stdout == "mode: observe -> enforce\n"
    difference = json.loads(run("diff", "east", file, "--json").stdout)
    assert difference == {"path": "mode", "before": "observe", "after": "enforce"}
    same = policy_file(tmp_path, "# the same\nloadAware: {usageThresholds: {cpu: 70}}\n")
    assert run("diff", "east", same).stdout == "the policies have the same effect\n"
