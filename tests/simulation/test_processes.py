"""A worker as a process: its end is noticed, and it has only the given settings."""

from pathlib import Path

import pytest

from simulation.processes import LoadstreamProcess, ProcessDied, make_worker, run_processes
from tests.conftest import eventually


def _has_ended(process: LoadstreamProcess) -> bool:
    return process.pid is None


def test_a_worker_that_cannot_start_is_an_error_with_its_reason(tmp_path: Path) -> None:
    settings = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": "not an address"}
    with run_processes([make_worker(tmp_path, settings)]) as (process,):
        assert eventually(lambda: _has_ended(process))
        with pytest.raises(ProcessDied, match=r"its log .*ends with:\n(.*\n)*.*not an addr"):
            process.check()


def test_settings_of_the_parent_process_do_not_reach_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADSTREAM_WORKER_STAGES", "nonsense")
    monkeypatch.setenv("LOADSTREAM_KAFKA_SASL_USERNAME", "somebody")
    settings = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": "wrong"}
    with run_processes([make_worker(tmp_path, settings)]) as (process,):
        assert eventually(lambda: _has_ended(process))
        text = process.output()
    assert "wrong" in text
    assert "nonsense" not in text
    assert "SASL" not in text
