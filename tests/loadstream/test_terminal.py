"""Commands print no control characters, whatever names, keys and values contain."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from loadstream.commands import app
from schemas.base.printable import escape_json, escape_yaml, replace_unprintable
from schemas.base.refusals import Refusal
from schemas.examples import EXAMPLES
from schemas.topics.catalog import TOPICS
from schemas.topics.codec import decode
from tests.conftest import RunningBroker

ROOT = Path(__file__).parents[2]
#: C0 (colour, bell), DEL, C1 (CSI, next line), bidirectional, separators, invisible; and rich's markup.
HOSTILE = "\x1b[31m\x07\x7f\x9b2J\x85\u202e\u2066\u200e\u061c\u2028\u200b\U000e0041[red]"
#: The characters of these that names may contain.
NAMES = HOSTILE[HOSTILE.index("\x9b") :]
_ABOUT = "prod-eu"


def _hostile(value: Any, text: str) -> Any:
    """Return the value with the text appended to every string."""
    if isinstance(value, dict):
        return {key: _hostile(item, text) for key, item in value.items()}
    if isinstance(value, list):
        return [_hostile(item, text) for item in value]
    return value + text if isinstance(value, str) else value


def _variants(topic: str, value: Any) -> Iterator[bytes]:
    """Yield an example's records with as much hostile text as its schema accepts, and refused records."""
    yield orjson.dumps(_hostile(value, HOSTILE))
    for text in (HOSTILE, NAMES):
        accepted = dict(value)
        for name, before in value.items():
            if name != "cluster":
                trial = {**accepted, name: _hostile(before, text)}
                if not isinstance(decode(topic, orjson.dumps(trial)), Refusal):
                    accepted = trial
        yield orjson.dumps(accepted)
    yield HOSTILE.encode()
    yield orjson.dumps({**value, HOSTILE: 1, "schema_version": HOSTILE})


@pytest.fixture
def filled(embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A broker with hostile records in every topic."""
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", embedded.bootstrap_servers)
    options = {"bootstrap.servers": embedded.bootstrap_servers, "partitioner": "murmur2_random"}
    producer = Producer(options)
    for topic in TOPICS:
        for message in EXAMPLES[topic.name]:
            for value in _variants(topic.name, message.payload()):
                producer.produce(topic.name, value, key=_ABOUT)
                producer.produce(topic.name, value, key=_ABOUT + HOSTILE, partition=0)
    assert producer.flush(30) == 0
    return ROOT


def _check(text: str) -> None:
    bad = {character for character in text if character != "\n" and not character.isprintable()}
    assert not bad, [hex(ord(character)) for character in bad]


def _run(*arguments: str, stdin: bytes | None = None) -> str:
    result = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=False)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    _check(result.stdout)
    _check(result.stderr)
    return result.stdout


def test_commands_print_only_what_is_printable_and_json_keeps_the_text(filled: Path) -> None:
    for topic in TOPICS:
        assert _run("topic", "tail", topic.name)
        shown = _run("topic", "tail", topic.name, "-n", "1000", "--json").splitlines()
        assert any(NAMES in json.dumps(json.loads(line), ensure_ascii=False) for line in shown)
    for arguments in (
        ("cluster", "why-not", _ABOUT),
        ("cluster", "why-not", _ABOUT, "--node", "worker-7" + HOSTILE),
        ("cluster", "why-not", _ABOUT, "--pod", "shop/web" + NAMES),
        ("migration", "list", _ABOUT, "--all"),
        ("policy", "history", _ABOUT),
        ("cluster", "pause", _ABOUT, "--reason", HOSTILE),
        ("policy", "history", _ABOUT),
        ("policy", "history", _ABOUT + NAMES),
        ("migration", "abort", _ABOUT, "shop/web" + NAMES),
        ("topic", "tail", HOSTILE),
        ("topic", "tail", "clock", "--from", HOSTILE),
    ):
        _run(*arguments)
    for arguments in (
        ("cluster", "why-not", _ABOUT, "--json"),
        ("migration", "list", _ABOUT, "--json", "--all"),
    ):
        out = _run(*arguments)
        for text in [out] if arguments[0] == "why-not" else out.splitlines():
            json.loads(text)
    lines = b"\n".join(
        _variants("scheduling-requests", EXAMPLES["scheduling-requests"][0].payload())
    )
    _run("topic", "produce", "scheduling-requests", "--on-error", "skip", stdin=lines)


def test_a_policy_file_is_printed_as_text_and_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    text = NAMES.replace("\U000e0041", "")  # YAML does not have this escape of JSON
    name = json.dumps("pool" + text)
    file.write_text(
        f"rebalance: {{nodePools: [{{name: {name}, lowThresholds: {{cpu: 1}}, highThresholds: {{cpu: 2}}}}]}}"
    )
    out = _run("policy", "check", "--all", str(file))
    assert yaml.safe_load(out)["rebalance"]["nodePools"][0]["name"] == "pool" + text
    file.write_text(f"{json.dumps(HOSTILE)}: 1\nmode: {json.dumps(HOSTILE)}\n")
    _run("policy", "check", str(file))


@given(st.text())
def test_any_text_is_made_printable_without_changing_json_and_yaml(text: str) -> None:
    _check(replace_unprintable(text))
    assert len(replace_unprintable(text)) == len(text)
    escaped = escape_json(json.dumps({text: [text]}, ensure_ascii=False))
    _check(escaped)
    assert json.loads(escaped) == {text: [text]}
    quoted = escape_yaml(json.dumps(text, ensure_ascii=False))
    _check(quoted)
