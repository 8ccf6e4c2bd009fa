"""Signals that end a block."""

import importlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from pydantic_core import CoreSchema, core_schema

from connectors.process.signals import terminable


def _raise_another_error_at(number: signal.Signals) -> None:
    try:
        os.kill(os.getpid(), number)
    except KeyboardInterrupt:
        raise ValueError("of a library that was interrupted") from None


@pytest.mark.parametrize(
    ("number", "ends_with"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_signal_ends_the_block_if_another_error_replaces_the_interrupt(
    number: signal.Signals, ends_with: type[BaseException]
) -> None:
    with pytest.raises(ends_with), terminable():
        _raise_another_error_at(number)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_waits_until_pydantic_has_built_a_class() -> None:
    built = []

    class Interrupting:
        @classmethod
        def __get_pydantic_core_schema__(cls, _: Any, __: Any) -> CoreSchema:
            os.kill(os.getpid(), signal.SIGINT)
            return core_schema.any_schema()

    def build_and_wait() -> None:
        built.append(TypeAdapter(Interrupting))
        time.sleep(10)

    with pytest.raises(KeyboardInterrupt), terminable():
        build_and_wait()
    assert built


def test_an_interrupt_waits_until_a_module_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "interrupting.py").write_text("import os; os.kill(os.getpid(), 2)")
    monkeypatch.syspath_prepend(tmp_path)
    imported = []

    def import_and_wait() -> None:
        imported.append(importlib.import_module("interrupting"))
        time.sleep(10)

    with pytest.raises(KeyboardInterrupt), terminable():
        import_and_wait()
    assert imported


def test_an_error_without_a_signal_is_raised() -> None:
    with pytest.raises(ValueError, match="of the block"), terminable():
        raise ValueError("of the block")
