"""`python -m benchmarks.reference [--check]`: writes the pages of docs/reference from the code.

The pages list fields of policies, settings, commands, metrics, topics, usage sources and the closed loop,
with their docstrings and help texts. To change a page, change these texts and run `make schemas`.
`--check` changes nothing and exits with 1 if a page is outdated.
"""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import typer
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import CollectorRegistry
from pydantic_settings import BaseSettings

from benchmarks.reference import GENERATED
from benchmarks.reference.field_tables import (
    SHARED,
    format_cell,
    format_table,
    format_value,
    list_fields,
)
from connectors.agent.telemetry import AgentTelemetry
from connectors.kubernetes.duties.telemetry import DutyTelemetry
from connectors.kubernetes.sources.registry import SOURCES
from connectors.process.logs import LogSettings
from loadstream.cli.command import EXIT_CODES
from loadstream.commands import app
from schemas.base.docstrings import field_docstrings
from schemas.policy.document import Policy
from schemas.policy.parts import PolicyPart
from schemas.policy.sections.migration import GATES
from schemas.policy.sections.plugins import BUILT_IN
from schemas.settings.connection import KafkaSettings
from schemas.storage.tables import TABLES
from schemas.topics.catalog import PARTITIONS_DEFAULT, TOPICS, Topic
from simulation.closed_loop.contenders import POLICIES, RULES, list_contenders
from simulation.closed_loop.parameters import Parameters
from streams.worker.report.metrics import Metrics
from streams.worker.report.observer import Gauges
from streams.worker.settings import WorkerSettings

REFERENCE = Path(__file__).parents[2] / "docs/reference"

_HEAD = GENERATED + " from {source}; change it there. -->\n"
_DAY_MS = 86_400_000

#: Pages that explain sections of the policy.
_EXPLANATIONS = {
    "loadAware": "../explanation/placement.md",
    "overutilizationRisk": "../explanation/risk-score.md",
    "riskMoves": "../explanation/rebalancing.md#moves-by-risk",
    "rebalance": "../explanation/rebalancing.md#moves-by-thresholds",
    "migration": "../explanation/migrations.md",
    "moves": "../explanation/rebalancing.md#protection-against-ping-pong",
    "collect": "../explanation/aggregate.md",
}


def build_policy_page() -> str:
    default = Policy()
    sections = {
        name: field
        for name, field in Policy.model_fields.items()
        if isinstance(getattr(default, name), PolicyPart)
    }
    top_level = [name for name in Policy.model_fields if name not in sections]
    lines = [
        _HEAD.format(source="schemas/policy"),
        "# Policy fields\n",
        "Every field of a [policy](policy-format.md), with the value that an empty policy has. Lists have "
        "entries written as `field[].name`, and maps by resource as `cpu 75, memory 95`.\n",
        "## Top level\n",
        *format_table("field", list_fields(Policy, default, only=top_level)),
    ]
    for name, field in sections.items():
        alias, section = field.alias or name, getattr(default, name)
        lines += [f"\n## `{alias}`\n", field_docstrings(Policy)[name].replace("\n", " ") + "\n"]
        if alias in _EXPLANATIONS:
            lines.append(f"How it works: [explanation]({_EXPLANATIONS[alias]}).\n")
        if alias == "plugins":
            lines += [
                f"- `{kind}`: {', '.join(getattr(BUILT_IN, kind))}"
                for kind in ("filter", "score", "balance")
            ]
            lines.append("")
        lines += format_table("field", list_fields(type(section), section))
        if alias == "migration":
            lines += ["\nGates that `skipEvictionGates` may name, and what each protects:\n"]
            lines += ["| gate | protects |", "|---|---|"]
            lines += [f"| `{gate}` | {text} |" for gate, text in GATES.items()]
    for part, name in SHARED.items():
        lines += [
            f"\n## {name.capitalize()}\n",
            inspect.cleandoc(part.__doc__ or "").replace("\n", " ") + "\n",
        ]
        lines += format_table("field", list_fields(part))
    return "\n".join(lines) + "\n"


def build_settings_page() -> str:
    lines = [
        _HEAD.format(source="the classes of settings"),
        "# Settings\n",
        "Settings are environment variables. [Operations](operations.md) says how they are read.\n",
    ]
    groups: dict[str, tuple[type[BaseSettings], str]] = {
        "Kafka": (KafkaSettings, "All commands and programs use these."),
        "Workers": (WorkerSettings, "`loadstream worker` uses these."),
        "Logs": (LogSettings, "Workers and the processes of `loadstream kubernetes` use these."),
    }
    for title, (group, text) in groups.items():
        prefix = group.model_config.get("env_prefix")
        rows = [row._replace(path=f"{prefix}{row.path.upper()}") for row in list_fields(group)]
        lines += [f"## {title}\n", text + "\n", *format_table("variable", rows), ""]
    return "\n".join(lines)


def build_commands_page() -> str:
    root = typer.main.get_command(app)
    lines = [
        _HEAD.format(source="the commands' help"),
        "# Commands\n",
        "Every command also has `--help`. Commands that use Kafka have `--bootstrap HOST:PORT,...`; without it "
        "they use `LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS`, or the broker that `loadstream broker` started. With "
        "`--json` a command prints one JSON object per line on standard output; warnings and errors go to "
        "standard error.\n",
        "## Exit codes\n",
        "| code | meaning |",
        "|---|---|",
        *(f"| {code} | {text} |" for code, text in EXIT_CODES.items()),
    ]
    for words, command in _list_commands(root, ()):
        lines += [f"\n## {' '.join(words)}\n", *_describe_command(words, command)]
    return "\n".join(lines) + "\n"


def _list_commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield words, command
        return
    for name, subcommand in subcommands.items():
        yield from _list_commands(subcommand, (*words, name))


def _describe_command(words: Sequence[str], command: Any) -> Iterator[str]:
    usage = [
        _format_metavar(param) for param in command.params if param.param_type_name == "argument"
    ]
    yield f"`loadstream {' '.join((*words, *usage))}`\n"
    yield "\n\n".join(map(format_cell, inspect.cleandoc(command.help or "").split("\n\n")))
    if command.epilog:
        yield f"\n{command.epilog.replace('loadstream', '`loadstream', 1)}`"
    rows = [
        (
            _format_option_names(param),
            " ".join((param.help or "").split()),
            _format_option_default(param),
        )
        for param in command.params
        if param.name not in ("help", "bootstrap", "json")
    ]
    if rows:
        yield "\n| argument or option | default | meaning |\n|---|---|---|"
        yield from (
            f"| {names} | {default} | {format_cell(text)} |" for names, text, default in rows
        )


def _format_metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _format_option_names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_format_metavar(parameter)}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _format_option_default(parameter: Any) -> str:
    default = parameter.default
    if parameter.required:
        return "required"
    if default is None or default is False or default == "" or default == [] or callable(default):
        return ""
    return format_value(default)


def build_metrics_page() -> str:
    gauges = CollectorRegistry()
    gauges.register(Gauges())
    lines = [
        _HEAD.format(source="the metrics' definitions"),
        "# Metrics\n",
        "Times are in seconds, sizes in bytes. All programs also expose the usual metrics of a process, such as "
        "`process_cpu_seconds_total`. [Monitoring](../how-to/alerts.md) says which ones matter, and "
        "[operations](operations.md#metrics) how to read them.",
    ]
    groups: dict[str, tuple[str, tuple[CollectorRegistry, ...]]] = {
        "Workers": (
            "`loadstream worker`, if `LOADSTREAM_WORKER_METRICS_PORT` is set.",
            (Metrics().registry, gauges),
        ),
        "Processes of a Kubernetes cluster": (
            "`loadstream kubernetes`, with `--metrics-port`.",
            (DutyTelemetry("cluster").registry,),
        ),
        "Node agent": ("`loadstream agent`, with `--metrics-port`.", (AgentTelemetry().registry,)),
    }
    for title, (text, registries) in groups.items():
        lines += [
            f"\n## {title}\n",
            text + "\n",
            "| metric | type | labels | meaning |",
            "|---|---|---|---|",
        ]
        lines += sorted(row for registry in registries for row in _list_metrics(registry))
    return "\n".join(lines) + "\n"


def _list_metrics(registry: CollectorRegistry) -> Iterator[str]:
    for collector in vars(registry)["_collector_to_names"]:
        is_single = isinstance(collector, MetricWrapperBase)
        for family in collector.describe() if is_single else collector.collect():
            if family.name.startswith("loadstream_"):
                labels = ", ".join(vars(collector if is_single else family)["_labelnames"])
                suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
                text = format_cell(family.documentation)
                yield f"| `{family.name}{suffix}` | {family.type} | {labels} | {text} |"


def build_topics_page() -> str:
    lines = [
        _HEAD.format(source="schemas/topics/catalog.py and schemas/storage/tables.py"),
        "# Topics\n",
        f"Every topic has the same number of partitions, {PARTITIONS_DEFAULT} unless `LOADSTREAM_KAFKA_PARTITIONS` "
        "says otherwise. A record must be in the partition that its key hashes to (murmur2). "
        "[JSON Schemas and AsyncAPI](../../schemas/published) describe every message.\n",
        "| topic | key | message | written by | read by | kept |",
        "|---|---|---|---|---|---|",
        *map(_format_topic, TOPICS),
        "",
        *(f"- `{topic.name}`: {topic.summary}" for topic in TOPICS),
        "\n## Tables\n",
        "A table is a compacted topic `loadstream-<table>-changelog` that workers recover from.\n",
        "| table | content |",
        "|---|---|",
        *(f"| `{table.name}` | {table.summary} |" for table in TABLES),
    ]
    return "\n".join(lines) + "\n"


def build_sources_page() -> str:
    lines = [
        _HEAD.format(source="connectors/kubernetes/sources"),
        "# Fields of usage sources\n",
        "An entry of `sources` has the fields of its source. [Usage sources](sources.md) explains them.",
    ]
    for name, source in SOURCES.items():
        lines += [f"\n## `{name}`\n", inspect.cleandoc(source.__doc__ or "") + "\n"]
        lines += format_table("field", list_fields(source.settings_class))
    return "\n".join(lines) + "\n"


def build_closed_loop_page() -> str:
    texts = field_docstrings(Parameters)
    lines = [
        _HEAD.format(source="simulation/closed_loop"),
        "# Contenders and parameters of the closed loop\n",
        "`--contenders` names contenders, and `--set NAME=VALUE` sets a parameter; a range is two numbers with a "
        "comma. [Compare policies](../how-to/compare-policies.md) shows how to run it.\n",
        "## Contenders\n",
        "| contender | what it is |",
        "|---|---|",
        *(f"| `{name}` | {format_cell(_describe_contender(name))} |" for name in list_contenders()),
        "\n## Parameters\n",
        "| parameter | default | meaning |",
        "|---|---|---|",
        *(
            f"| `{field.name}` | {format_value(field.default)} | {format_cell(texts.get(field.name, ''))} |"
            for field in dataclasses.fields(Parameters)
        ),
    ]
    return "\n".join(lines) + "\n"


def _describe_contender(name: str) -> str:
    """Return the comment above a built-in policy, or the first docstring line of a rule."""
    policy = POLICIES / f"{name}.yaml"
    if policy.exists():
        lines = policy.read_text(encoding="utf-8").splitlines()
        comment = takewhile(lambda line: line.startswith("#"), lines)
        return " ".join(line.lstrip("# ") for line in comment)
    return (inspect.getdoc(inspect.getmodule(RULES[name])) or "").splitlines()[0]


def _format_topic(topic: Topic) -> str:
    classes = ", ".join(f"`{cls.__name__}`" for cls in topic.classes)
    writer = {"outside": "producers", "every stage": "both stages"}.get(topic.writer, topic.writer)
    reader = {"none": "people and programs"}.get(topic.stage, topic.stage)
    if topic.name in ("journal", "checkpoints"):
        reader = "cluster (recovery), replay"
    kept = (
        f"compacted after {topic.compaction_lag_ms // _DAY_MS} days"
        if topic.compacted
        else f"{topic.retention_ms // _DAY_MS} days"
    )
    return f"| `{topic.name}` | {topic.key} | {classes} | {writer} | {reader} | {kept} |"


PAGES: dict[str, Callable[[], str]] = {
    "policy.md": build_policy_page,
    "settings.md": build_settings_page,
    "commands.md": build_commands_page,
    "metrics.md": build_metrics_page,
    "topics.md": build_topics_page,
    "source-fields.md": build_sources_page,
    "closed-loop.md": build_closed_loop_page,
}


def main(arguments: list[str]) -> int:
    """Write outdated pages; with `--check` only print their names."""
    outdated = 0
    for name, build_page in PAGES.items():
        path = REFERENCE / name
        page = build_page()
        if path.exists() and path.read_text(encoding="utf-8") == page:
            continue
        outdated += 1
        print(f"{'differs' if '--check' in arguments else 'wrote'}: {path}")
        if "--check" not in arguments:
            path.write_text(page, encoding="utf-8")
    if outdated and "--check" in arguments:
        print("run `make schemas` and commit the result", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
