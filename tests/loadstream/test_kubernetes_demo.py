"""`loadstream kubernetes demo` as users start it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadstream.commands import app


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--seconds", "30"), "--seconds: it has no effect without --observe"),
        (("--context", "c"), "--context: it has no effect without --observe"),
        (("--observe", "--nodes", "20"), "--nodes: it has no effect with --observe"),
        (("--observe", "--pods", "50"), "--pods: it has no effect with --observe"),
        (("--observe", "--plain"), "--plain: it has no effect with --observe"),
    ],
)
def test_an_option_of_the_demo_that_would_change_nothing_is_refused(
    options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    # Nothing can be run: there is no Go, no control plane in the cache, and no kubeconfig.
    bare = {"PATH": "", "LOADSTREAM_CACHE": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}
    result = CliRunner().invoke(
        app, ["kubernetes", "demo", *options], env={**bare, "COLUMNS": "1000"}
    )
    assert result.exit_code == 2
    assert f"Invalid value for {said}" in result.output
