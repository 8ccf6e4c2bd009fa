"""Signals that end a block."""

import os
import signal

import pytest

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


def test_an_interrupt_that_a_library_prints_and_replaces_is_not_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Object:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), terminable():  # noqa: PT012 - the object goes inside
        object_ = Object()
        del object_
        raise ValueError("of a library that was interrupted")
    assert capsys.readouterr().err == ""


def test_an_error_without_a_signal_is_raised() -> None:
    with pytest.raises(ValueError, match="of the block"), terminable():
        raise ValueError("of the block")
