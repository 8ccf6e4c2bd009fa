"""Format of logs, and masking of secrets."""

import io
import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from connectors.process.logs import MASK, LogSettings, configure
from schemas.settings.connection import KafkaSettings
from tests.conftest import RunningBroker, eventually
from tests.streams.worker_process import Worker

PASSWORD = "Swordf1sh\\'\"{}é"  # noqa: S105 - opens nothing


def _configure(*secrets: str, **settings: str) -> io.StringIO:
    stream = io.StringIO()
    configure(LogSettings.model_validate(settings), secrets, stream)
    return stream


def _events(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().split("\n") if line]


def test_away_from_a_terminal_an_event_is_one_line_of_json() -> None:
    stream = _configure()
    logging.getLogger("streams.worker.runner").warning("read %d records\nagain", 3)
    (event,) = _events(stream)
    assert event["event"] == "read 3 records\nagain"
    assert event["level"] == "warning"
    assert event["logger"] == "streams.worker.runner"
    assert str(event["timestamp"]).endswith("Z")


def test_extras_are_fields_and_a_traceback_is_in_the_same_line() -> None:
    stream = _configure()
    try:
        dict[str, int]()["gone"]
    except KeyError:
        logging.getLogger("streams").exception("failed", extra={"partition": 3, "what": {1: {2}}})
    (event,) = _events(stream)
    assert event["partition"] == 3
    assert "KeyError: 'gone'" in str(event["exception"])


@pytest.mark.parametrize(("level", "reported"), [("info", []), ("debug", ["debug"] * 5)])
def test_info_logs_of_libraries_are_debug_logs(level: str, reported: list[str]) -> None:
    stream = _configure(level=level)
    recovery = logging.getLogger("faust.tables.recovery")
    recovery.info("[^---Recovery]: Highwater:\n+----+\n| %s |\n+----+ ", "t")
    recovery.info("[^--TableManager]: Starting... ")
    logging.getLogger("faust.worker").info("[^Worker]: Ready")
    logging.getLogger("mode.services").info("ready")
    logging.getLogger("streams.worker.tables").info("[^_NamedTable: nodes]: Starting...")
    assert [event["level"] for event in _events(stream)] == reported


def _record(name: str, at_s: float, *arguments: object) -> logging.LogRecord:
    record = logging.LogRecord(name, logging.ERROR, "", 0, "no node %s", arguments, None)
    record.created = at_s
    return record


def test_repeated_logs_of_libraries_are_counted_and_logged_rarely() -> None:
    stream = _configure()
    for tenth in range(250):
        logging.root.handle(_record("aiokafka", 1_000 + tenth / 10, tenth))
    reported = _events(stream)
    assert [event["event"] for event in reported] == ["no node 0", "no node 100", "no node 200"]
    assert [event.get("suppressed") for event in reported] == [None, 99, 99]


def test_other_messages_of_a_library_and_all_of_ours_are_reported() -> None:
    stream = _configure()
    for _ in range(3):
        logging.root.handle(_record("streams.worker.runner", 1_000.0, 1))
        logging.getLogger("aiokafka").error("something else %d", _)
    logging.root.handle(_record("aiokafka", 1_000.0, 1))
    logging.root.handle(_record("aiokafka.conn", 1_000.0, 1))
    assert len(_events(stream)) == 3 + 1 + 2


@pytest.mark.parametrize(("level", "least"), [("debug", "INFO"), ("info", "WARNING")])
def test_payloads_of_aiokafka_are_never_logged(level: str, least: str) -> None:
    # Below info it logs requests, including the request with the password.
    _configure(level=level)
    connection = logging.getLogger("aiokafka.conn")
    assert logging.getLevelName(connection.getEffectiveLevel()) == least


@pytest.mark.parametrize("form", ["json", "console"])
def test_secrets_are_masked_in_all_parts_of_a_log(form: str) -> None:
    stream = _configure(PASSWORD, "second-secret", format=form)
    logger = logging.getLogger("streams")
    logger.warning("password %s and %r", PASSWORD, {"password": PASSWORD})
    logger.warning("more", extra={"options": {"sasl": PASSWORD}, "number": 1})
    try:
        int(f"cannot log in with {PASSWORD} or second-secret")
    except ValueError:
        logger.exception("failed")
    written = stream.getvalue()
    assert "Swordf1sh" not in written
    assert "second-secret" not in written
    assert MASK in written


@given(st.text(min_size=1, max_size=12), st.text(max_size=12))
def test_secrets_with_any_characters_are_masked(secret: str, around: str) -> None:
    stream = _configure(secret)
    logging.getLogger("streams").warning("%s", f"<{around}{secret}{around}>")
    (event,) = _events(stream)
    assert secret not in str(event["event"]).replace(MASK, "")


def test_settings_name_all_their_secrets(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from-a-file\n")
    settings = KafkaSettings.local(
        "b:1", sasl_password_file=file, client_key_password=SecretStr("of-the-key")
    )
    assert set(settings.secrets()) == {"from-a-file", "of-the-key"}
    assert KafkaSettings.local("b:1").secrets() == ()


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValidationError):
        LogSettings.model_validate({"level": "loud"})


def test_a_worker_logs_nothing_but_json_and_no_tables(
    embedded: RunningBroker, tmp_path: Path
) -> None:
    # A session that expires during a pause of the machine would be logged as an error.
    with Worker(embedded.settings, tmp_path, session_timeout_s="60") as worker:
        has_both = "owns the partitions"
        assert eventually(lambda: worker.log().count(has_both) == 2), worker.log()
        assert worker.stop() == 0
    lines = (tmp_path / "worker.log").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    assert {event["level"] for event in events} <= {"info", "warning"}
    assert not [event for event in events if "\n" in event["event"].strip()]
    # Libraries log nothing at info.
    loggers = {event["logger"] for event in events if event["level"] == "info"}
    assert {logger.partition(".")[0] for logger in loggers} == {"streams"}
