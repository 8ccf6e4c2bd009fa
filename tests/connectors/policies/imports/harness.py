"""Runs `policy import` on a text, and reads what it prints."""

import re
from dataclasses import dataclass

from typer.testing import CliRunner

from loadstream.policy.commands import app
from schemas.policy import Policy, read_policy

SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
KOORDINATOR = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerConfiguration\n"
DESCHEDULER = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
OPENSHIFT = "apiVersion: operator.openshift.io/v1\nkind: KubeDescheduler\n"


@dataclass(frozen=True)
class Imported:
    """The output of the command."""

    exit_code: int
    text: str
    report: dict[str, dict[str, str]]
    """Texts by group and by name."""
    errors: list[str]

    @property
    def policy(self) -> Policy:
        """The policy, read back; fields without an effect need a reason."""
        return read_policy(self.text)


def import_text(text: str, *options: str) -> Imported:
    """Import a text that the command reads from standard input."""
    result = CliRunner().invoke(app, ["import", "-", *options], input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    report: dict[str, dict[str, str]] = {}
    group: dict[str, str] = {}
    errors = []
    for line in result.stderr.splitlines():
        if line in ("taken over:", "handled elsewhere:", "lost:"):
            group = report.setdefault(line[:-1], {})
        elif entry := re.match(r"  line \d+: (.+?): (.+)", line):
            name = entry[1]
            group[name] = f"{group[name]}; {entry[2]}" if name in group else entry[2]
        else:
            errors.append(line)
    return Imported(result.exit_code, result.stdout, report, errors)
