"""The strings below fields: read from the source, when they are wanted."""

import subprocess
import sys

from schemas.base.contract import build_schema
from schemas.base.docstrings import field_docstrings
from schemas.storage.tables import ROW_CLASSES
from schemas.topics.catalog import TOPICS


class _Base:
    kept: int
    """Said
    by the base."""
    said_anew: int
    """Said by the base."""
    silent: int
    """Said by the base."""

    class Inner:
        deep: int
        """Said inside."""


class _Derived(_Base):
    said_anew: int = 2
    """Said anew."""
    silent: int = 3
    unsaid: int
    other = 4
    """Below no field."""


def test_the_string_below_a_field_belongs_to_it() -> None:
    assert field_docstrings(_Base)["kept"] == "Said\nby the base."
    assert field_docstrings(_Base.Inner) == {"deep": "Said inside."}


def test_a_field_that_is_written_anew_keeps_no_string_of_the_base() -> None:
    assert field_docstrings(_Derived) == {"kept": "Said\nby the base.", "said_anew": "Said anew."}


def test_two_classes_of_one_name_are_told_apart() -> None:
    class _Base:
        kept: int
        """Said by the one inside."""

    assert field_docstrings(_Base) == {"kept": "Said by the one inside."}


def test_a_class_without_source_has_no_strings() -> None:
    assert field_docstrings(type("Made", (), {"__annotations__": {"one": int}})) == {}


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


def test_no_class_is_built_before_somebody_uses_it() -> None:
    """Every process imports them all: built they are half of the time that a command takes to start."""
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", _UNBUILT], capture_output=True, text=True, check=True
    )
    # The policy's defaults hold some of these.
    assert set(done.stdout.split()) <= {"EnabledPlugin", "ScorePlugin"}


def test_every_message_and_row_can_be_built() -> None:
    for each in [*(topic.message for topic in TOPICS), *ROW_CLASSES.values()]:
        assert build_schema(each)
