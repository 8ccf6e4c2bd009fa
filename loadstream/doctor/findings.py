"""The result of a check: one line with a grade and advice."""

from dataclasses import dataclass
from typing import Literal

Grade = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    grade: Grade
    check: str
    """Subject of the check, in a word or two."""
    text: str
    advice: str = ""
    """What to do; empty: nothing."""

    def __str__(self) -> str:
        end = " " if self.text.endswith((".", "?")) else ". "
        return f"{self.grade:8} {self.check}: {self.text}{end + self.advice if self.advice else ''}"


def ok(check: str, text: str) -> Finding:
    return Finding("ok", check, text)


def warning(check: str, text: str, advice: str = "") -> Finding:
    return Finding("warning", check, text, advice)


def error(check: str, text: str, advice: str = "") -> Finding:
    return Finding("error", check, text, advice)
