"""The docstrings of fields are read from the source on demand."""

import subprocess
import sys

from schemas.base.contract import build_schema
from schemas.storage.tables import ROW_CLASSES
from schemas.topics.catalog import TOPICS

_UNBUILT = """
from schemas.base.message import Message, Part
from schemas.policy.parts import PolicyPart
import schemas.topics.catalog

def below(made):
    for each in made.__subclasses__():
        yield each
        yield from below(each)

print(*[each.__name__ for base in (Part, PolicyPart) for each in below(base) if each.__pydantic_complete__])
"""


def test_message_classes_are_built_on_first_use() -> None:
    """Building all of them would double the start time of a command."""
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", _UNBUILT], capture_output=True, text=True, check=True
    )
    # The defaults of the policy contain some of these classes.
    assert set(done.stdout.split()) <= {"EnabledPlugin", "ScorePlugin"}


def test_every_message_and_row_can_be_built() -> None:
    for model in [*(topic.message for topic in TOPICS), *ROW_CLASSES.values()]:
        assert build_schema(model)
