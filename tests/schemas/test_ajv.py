"""The published JSON Schemas in ajv, a common validator for JavaScript and TypeScript."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from schemas.publish.export import PUBLISHED

pytestmark = pytest.mark.slow

AJV = Path(__file__).parents[1] / "ajv"


@pytest.fixture(scope="module")
def ajv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with ajv; the test is skipped if npm cannot install it."""
    where = tmp_path_factory.mktemp("ajv")
    shutil.copytree(AJV, where, dirs_exist_ok=True)
    problem = "npm or node is not there"
    if shutil.which("npm") and shutil.which("node"):
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],  # noqa: S607 - whichever is there
            cwd=where, capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        if done.returncode == 0:
            return where
        problem = done.stderr
    if os.environ.get("LOADSTREAM_REQUIRE_ALL") == "1":
        pytest.fail(f"no ajv: {problem}")
    pytest.skip(f"no ajv: {problem}")


def compiled(ajv: Path, directory: Path, *keywords: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own script
        ["node", str(ajv / "compile.js"), str(directory), *keywords],  # noqa: S607 - whichever is there
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_every_schema_compiles_in_strict_mode_and_takes_its_examples(ajv: Path) -> None:
    done = compiled(ajv, PUBLISHED, "unit", "x-kafka")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().endswith(", 0 wrong")
