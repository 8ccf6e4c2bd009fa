"""Arguments of commands, checked as the schema of the record that they become part of."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.units import duration_ms

if TYPE_CHECKING:
    from pydantic import BaseModel

    from schemas.topics.catalog import Topic

#: Where a process that runs on answers `/metrics` and `/healthz` (`connectors.process.metrics_endpoint`).
MetricsPort = Annotated[
    int,
    typer.Option(
        "--metrics-port",
        min=0,
        max=65_535,
        help="Port on which /metrics and /healthz answer; 0: none.",
    ),
]
MetricsHost = Annotated[
    str,
    typer.Option(
        "--metrics-host",
        help="Address on which /metrics and /healthz answer, such as 127.0.0.1; empty: all.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON, one object per line.")]


def cluster_name(name: str | None) -> str | None:
    """Checks the name of a cluster that records are looked for of; none: of all."""
    return name if name is None else as_field(_usage, "cluster")(name)


def node_name(name: str | None) -> str | None:
    """Checks the name of a node that is asked about; none: no node is asked about."""
    return name if name is None else as_field(_usage, "node")(name)


def check_metrics(host: str, port: int) -> None:
    """An address without a port would change nothing."""
    if host and not port:
        raise typer.BadParameter(
            f"found {host!r} and no port; give --metrics-port, too", param_hint="--metrics-host"
        )


def make_directory(path: Path, option: str) -> None:
    """Make a directory for results before anything runs; an error names the option."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        why = None if os.access(path, os.W_OK | os.X_OK) else "it cannot be written"
    except OSError as error:
        why = error.strerror
    if why is not None:
        raise typer.BadParameter(
            f"{path}: {why}; expected a directory that can be written", param_hint=option
        )


def as_field(
    record: "Callable[[], type[BaseModel]]", name: str, option: str | None = None
) -> Callable[[Any], Any]:
    """Checks an argument as the field of the record that it becomes.

    Args:
        record: imports the record's class, which is not done before a command runs.
        name: of the field.
        option: what an error names; none: the parameter whose callback it is.
    """

    def check(value: Any) -> Any:
        from pydantic import TypeAdapter, ValidationError

        from schemas.base.contract import SchemaGenerator
        from schemas.base.validation_errors import describe_allowed, describe_value

        field = record().model_fields[name]
        checked: Any = field.annotation
        if field.metadata:
            checked = Annotated[field.annotation, *field.metadata]
        reader = TypeAdapter(checked)
        try:
            reader.validate_python(value)
        except ValidationError as error:
            detail = error.errors(include_url=False)[0]
            schema = reader.json_schema(schema_generator=SchemaGenerator)
            raise typer.BadParameter(
                f"found {describe_value(value)}; expected {describe_allowed(detail, schema)}",
                param_hint=option,
            ) from None
        return value

    return check


def _usage() -> "type[BaseModel]":
    from schemas.messages.usage import NodeUsage

    return NodeUsage


def number(
    unit: str, least: float, most: float | None = None, *, whole: bool = True
) -> Callable[[Any], Any]:
    """Reads a number of a unit within its range; an error says all three.

    Args:
        unit: what is counted, in the plural, as `seconds`; empty: nothing is, as with a port.
        least: smallest number allowed.
        most: largest one; none: there is none.
        whole: only integers.
    """
    within = f"at least {least:g}" if most is None else f"{least:g} to {most:g}"
    of_unit = f" of {unit}" if unit else ""
    expected = f"{'a whole number' if whole else 'a number'}{of_unit}, {within}"

    def read(value: Any) -> Any:
        try:
            found = int(value) if whole else float(value)
        except ValueError:
            found = None
        # Not a number is in no range.
        if found is None or not (least <= found and (most is None or found <= most)):
            raise typer.BadParameter(f"found {value}; expected {expected}")
        return found

    return read


def pod_name(text: str, option: str | None = None) -> tuple[str, str]:
    """Namespace and name of a pod; an error names the option."""
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise typer.BadParameter(
            f"found {text!r}; expected NAMESPACE/NAME, such as shop/web-1", param_hint=option
        )
    return namespace, name


def length_ms(text: str, option: str) -> int:
    """A length of time that is not 0; an error names the option."""
    found_ms = duration_ms(text)
    if not found_ms:
        raise typer.BadParameter(
            f"found {text!r}; expected a length of time such as 10m, 1h or 2d", param_hint=option
        )
    return found_ms


def topic_names() -> list[str]:
    """For the completion of shells."""
    from schemas.topics.catalog import TOPIC_BY_NAME

    return list(TOPIC_BY_NAME)


def topic_of(name: str) -> "Topic":
    from difflib import get_close_matches

    from schemas.topics.catalog import TOPIC_BY_NAME

    if name not in TOPIC_BY_NAME:
        close = get_close_matches(name, TOPIC_BY_NAME, n=1)
        hint = (
            f"did you mean {close[0]}?" if close else f"expected one of {', '.join(TOPIC_BY_NAME)}"
        )
        raise typer.BadParameter(f"there is no topic {name!r}; {hint}", param_hint="TOPIC")
    return TOPIC_BY_NAME[name]
