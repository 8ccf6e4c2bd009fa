from pathlib import Path

import pytest

from connectors.agent.files import Files
from connectors.agent.pressure import parse_pressure, read_node_pressure
from schemas.messages.usage import ResourcePressure, Stalled
from tests.connectors.agent.trees import PRESSURE, NodeFiles


def test_shares_are_in_hundredths_of_a_percent() -> None:
    assert parse_pressure(PRESSURE) == ResourcePressure(
        some=Stalled(avg10_bp=1_242, avg60_bp=941, avg300_bp=85, total_us=19_521_096_885),
        full=Stalled(avg10_bp=9, avg60_bp=0, avg300_bp=10_000, total_us=528_641_504),
    )


@pytest.mark.parametrize("text", ["", "some avg10=x\n", "full avg10=0.00\n"])
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a line that begins with some"):
        parse_pressure(text)


def test_a_node_has_no_full_pressure_of_the_cpu(tmp_path: Path) -> None:
    files = NodeFiles(tmp_path, "v2", "systemd")
    found = read_node_pressure(Files(), str(files.proc))
    assert found is not None
    assert found.cpu is not None
    assert found.cpu.full is None
    assert found.memory is not None
    assert found.memory.full is not None


def test_a_kernel_without_pressure_has_none_and_that_is_no_failure(tmp_path: Path) -> None:
    files = Files()
    assert read_node_pressure(files, str(tmp_path)) is None
    assert not files.failures
