import pytest

from connectors.kafka import extents
from streams.worker.store import row_writer, topic_watch

#: Longer than a crowded machine keeps a test waiting, in seconds.
_LONG_S = 120.0


@pytest.fixture(autouse=True)
def _a_slow_machine_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause of this process for some seconds does not count as a silent broker or a lost
    partition."""
    for module in (extents, topic_watch):
        monkeypatch.setattr(module, "ANSWER_S", _LONG_S)
    monkeypatch.setattr(row_writer, "OWNED_S", _LONG_S)
