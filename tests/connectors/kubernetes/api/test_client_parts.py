"""kubernetes-asyncio without its typed models; the rest of it is as ever."""

import subprocess
import sys

import pytest

_LEAN = """
import sys
import connectors.kubernetes.api.server
loaded = [name for name in sys.modules if name.startswith("kubernetes_asyncio")]
assert "kubernetes_asyncio.client.rest" in loaded
print(len([name for name in loaded if ".models" in name or ".client.api" in name]))
"""
_WHOLE_AFTERWARDS = """
import connectors.kubernetes.api.client_parts as parts
import kubernetes_asyncio
assert kubernetes_asyncio.client.Configuration is parts.Configuration
assert kubernetes_asyncio.client.CoreV1Api
print(0)
"""
_WHOLE_BEFORE = """
import kubernetes_asyncio
import connectors.kubernetes.api.client_parts as parts
assert kubernetes_asyncio.client.Configuration is parts.Configuration
assert kubernetes_asyncio.client.CoreV1Api
print(0)
"""


@pytest.mark.parametrize(
    "script",
    [_LEAN, _WHOLE_AFTERWARDS, _WHOLE_BEFORE],
    ids=["alone", "whole afterwards", "whole before"],
)
def test_models_are_imported_only_on_use(script: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
