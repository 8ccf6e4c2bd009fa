"""`loadstream policy import`: output and exit codes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadstream.policy.commands import app
from tests.connectors.policies.imports.harness import DESCHEDULER, import_text

_TEXT = (
    DESCHEDULER + "profiles:\n- name: p\n  plugins: {balance: {enabled: [LowNodeUtilization]}}\n"
    "  pluginConfig:\n  - name: LowNodeUtilization\n    args:\n"
    "      thresholds: {cpu: 20}\n      targetThresholds: {cpu: 50}\n"
)


def test_each_value_has_the_line_that_it_came_from() -> None:
    lines = import_text(_TEXT).text.splitlines()
    (low,) = [line for line in lines if line.strip().startswith("lowThresholds")]
    assert "# line 9" in low
    assert [line for line in lines if line.strip().startswith("cpu: 20")] == [
        "    cpu: 20 # line 9"
    ]
    assert any(line.startswith("mode: observe # ") for line in lines)
    assert any(line.startswith("compat: loadstream # ") for line in lines)


def test_an_import_gives_the_warnings_that_applying_its_policy_gives(tmp_path: Path) -> None:
    imported = import_text(_TEXT.replace("cpu: 20", "cpu: 50"))
    (warning,) = imported.errors
    file = tmp_path / "policy.yaml"
    file.write_text(imported.text, encoding="utf-8")
    checked = CliRunner().invoke(app, ["check", str(file)])
    path, _, message = warning.removeprefix("warning: ").partition(": ")
    assert path == "rebalance.lowThresholds.cpu"
    assert f"{path}: {message}" in checked.stderr


def test_a_written_file_is_valid_and_no_file_is_overwritten(
    tmp_path: Path,
) -> None:
    file, written = tmp_path / "descheduler.yaml", tmp_path / "policy.yaml"
    file.write_text(_TEXT, encoding="utf-8")
    command = ["import", str(file), "-o", str(written)]
    result = CliRunner().invoke(app, command)
    assert (result.exit_code, result.stdout) == (0, "")
    checked = CliRunner().invoke(app, ["check", str(written)])
    assert checked.exit_code == 0
    assert checked.stdout.startswith("valid; no warnings")
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 1
    assert "cannot be written" in again.stderr


def test_a_file_that_is_too_long_is_refused() -> None:
    imported = import_text(_TEXT + "# more\n" * 700_000)
    assert (imported.exit_code, imported.text) == (1, "")
    assert "found more than 4194304 bytes" in imported.errors[0]


@pytest.mark.parametrize(
    "text",
    [
        "kind: DeschedulerPolicy\nprofiles: 5\n",
        "kind: DeschedulerPolicy\nprofiles: [5, {plugins: 5, pluginConfig: [5, {name: 5}]}]\n",
        "kind: DeschedulerPolicy\nstrategies: {LowNodeUtilization: 5, RemoveDuplicates: {enabled: 5}}\n",
        "kind: KubeDescheduler\nspec: {profiles: [[5]], profileCustomizations: 5}\n",
        "kind: KubeSchedulerConfiguration\nprofiles: [{pluginConfig: [{name: NodeResourcesFit, args: 5}]}]\n",
        "data: {colocation-config: '[5]', x: 'kind: DeschedulerPolicy: 5'}\n",
        'data:\n  colocation-config: |\n    {"nodeConfigs": [5, {"name": []}]}\n',
        "deschedulerPolicy: {profiles: [{pluginConfig: {}}]}\n",
    ],
)
def test_values_of_another_shape_are_errors(text: str) -> None:
    imported = import_text(text)
    assert (imported.exit_code, imported.text) == (1, "")
    assert "error" in imported.errors[-1]
