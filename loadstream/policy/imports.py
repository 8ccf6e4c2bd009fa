"""The command `policy import`: a policy from the configuration of another scheduler or descheduler.

Exit codes: 0 every setting is taken over or handled elsewhere; 1 the file has errors, or a setting is
lost and `--allow-lost` is not given; 2 the command line is wrong.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connectors.process.terminal import echo, print_json
from connectors.units import count_text
from loadstream.cli.arguments import Json
from loadstream.cli.command import warn
from loadstream.cli.files import print_problems, read_file, write_new
from schemas.base.printable import escape_yaml, to_one_line

if TYPE_CHECKING:
    from connectors.policies.imports.translation import Translation


#: Longest file that is read.
_FILE_BYTES_MAX = 4 * 2**20


def import_(
    file: Annotated[Path, typer.Argument(help="YAML or JSON; - reads standard input.")],
    allow_lost: Annotated[
        bool, typer.Option("--allow-lost", help="End with exit code 0 even if settings are lost.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the policy to this file, which must not exist."),
    ] = None,
    json: Json = False,
) -> None:
    """Translate a configuration of Koordinator, the Kubernetes scheduler or a descheduler into a policy.

    Reports which settings are taken over, handled elsewhere or lost. FILE may contain
    KubeSchedulerConfiguration, DeschedulerConfiguration, DeschedulerPolicy, KubeDescheduler or
    slo-controller-config: alone, in ConfigMaps, lists or Helm values. Read the policy before you apply
    it.
    """
    from connectors.policies.imports.koordinator import find_eviction_conflict
    from connectors.policies.imports.output import write_policy
    from connectors.policies.imports.translation import GROUPS, Translation
    from schemas.policy import PolicyError, Problem, read_policy
    from streams.placement.registry import KNOWN

    name, data = read_file(file, _FILE_BYTES_MAX)
    if len(data) > _FILE_BYTES_MAX:
        message = f"found more than {_FILE_BYTES_MAX} bytes; import the configuration alone"
        print_problems(name, [Problem("", message)])
    translation = Translation()
    _translate(translation, data.decode(errors="replace"))
    text = write_policy(translation, name)
    warnings: tuple[Problem, ...] = ()
    if not translation.problems:
        try:
            warnings = read_policy(text, KNOWN).warnings
        except PolicyError as error:
            translation.add_policy_problems(error.problems)
    if translation.problems:
        print_problems(name, sorted(translation.problems, key=lambda problem: problem.line or 0))
    entries = sorted(translation.entries, key=lambda entry: (GROUPS.index(entry.group), entry.line))
    group = None
    for entry in [] if json else entries:
        if entry.group != group:
            group = entry.group
            echo(f"{group}:", err=True)
        echo(to_one_line(f"  line {entry.line}: {entry.name}: {entry.text}"), err=True)
    conflict = find_eviction_conflict(translation)
    # Without line numbers, which would refer to the printed policy.
    lines = [f"{warning.path}: {warning.message}" for warning in warnings]
    lines += [] if conflict is None else [conflict]
    for line in lines:
        warn(line)
    if output is not None:
        write_new(output, text)
    if json:
        report = [asdict(entry) for entry in entries]
        print_json({"policy": text, "entries": report, "warnings": lines})
    elif output is None:
        echo(escape_yaml(text), nl=False)
    lost = sum(entry.group == "lost" for entry in translation.entries)
    if lost and not allow_lost:
        echo(
            f"{name}: {count_text(lost, 'setting')} lost; use --allow-lost to accept that", err=True
        )
        raise typer.Exit(1)


def _translate(translation: "Translation", text: str) -> None:
    from connectors.policies.imports import descheduler, koordinator, openshift, scheduler
    from connectors.policies.imports.documents import (
        HELM_VALUES,
        KINDS,
        SLO_KEYS,
        find_configurations,
    )

    translators = {
        "KubeSchedulerConfiguration": scheduler.translate,
        "DeschedulerConfiguration": koordinator.translate,
        "DeschedulerPolicy": descheduler.translate,
        "KubeDescheduler": openshift.translate,
        HELM_VALUES: descheduler.translate_values,
    }
    sources, problems = find_configurations(text)
    translation.problems += problems
    for source in sources:
        version = source.node.child("apiVersion")
        allowed = KINDS.get(source.kind, "")
        if source.kind in SLO_KEYS:
            koordinator.translate_slo(translation, source.kind, source.node)
        elif version.value is None or str(version.value).startswith(allowed):
            translators[source.kind](translation, source.node)
        else:
            message = f"found {version.value!r}; allowed for {source.kind} is {allowed}"
            translation.add_problem(version, message)
