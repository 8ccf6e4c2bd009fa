"""Arguments of commands, checked by the schema of the record that contains them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connectors.units import duration_ms

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter, ValidationError

    from connectors.kubernetes.sources.settings import SourceSettings
    from schemas.topics.catalog import Topic

#: Address of `/metrics` and `/healthz` of a long-running process (`connectors.process.metrics_endpoint`).
MetricsPort = Annotated[
    int,
    typer.Option(
        "--metrics-port",
        min=0,
        max=65_535,
        help="Port of /metrics and /healthz; 0: they are not served.",
    ),
]
MetricsHost = Annotated[
    str,
    typer.Option(
        "--metrics-host",
        help="Address of /metrics and /healthz, such as 127.0.0.1; empty: all addresses.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="Kubeconfig file. Default: KUBECONFIG, the pod's service account, or ~/.kube/config."
    ),
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]
Sources = Annotated[
    Path | None,
    typer.Option(
        "--sources",
        help="YAML file with the usage sources. Default: /metrics/resource of every kubelet.",
    ),
]


def as_field(
    record: "Callable[[], type[BaseModel]]", name: str, option: str | None = None
) -> Callable[[Any], Any]:
    """Return a callback that checks an argument, unless it is None, as a field of a record.

    Args:
        record: returns the record's class. The import is slow, so only a running command calls it.
        name: name of the field.
        option: name of the argument in errors; None: the parameter of the callback.
    """

    def check(value: Any) -> Any:
        if value is None:
            return None
        from pydantic import TypeAdapter, ValidationError

        field = record().model_fields[name]
        checked: Any = Annotated[field.annotation, field]
        reader = TypeAdapter(checked)
        try:
            reader.validate_python(value)
        except ValidationError as error:
            raise typer.BadParameter(describe_error(error, reader), param_hint=option) from None
        return value

    return check


def describe_error(error: "ValidationError", reader: "TypeAdapter[Any]") -> str:
    """Return a sentence about the first error of a value, with the path of a wrong field."""
    from schemas.base.contract import SchemaGenerator
    from schemas.base.validation_errors import describe_allowed, describe_value

    detail = error.errors(include_url=False)[0]
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    path = ".".join(map(str, detail["loc"]))
    schema = reader.json_schema(schema_generator=SchemaGenerator)
    found, allowed = describe_value(detail["input"]), describe_allowed(detail, schema)
    return f"{path + ': ' if path else ''}found {found}; expected {allowed}"


def _usage() -> "type[BaseModel]":
    from schemas.messages.usage import NodeUsage

    return NodeUsage


check_cluster_name = as_field(_usage, "cluster")
check_node_name = as_field(_usage, "node")
Cluster = Annotated[str, typer.Argument(help="Name of the cluster.", callback=check_cluster_name)]
ClusterOption = Annotated[
    str, typer.Option("--cluster", help="Name of the cluster.", callback=check_cluster_name)
]


def check_metrics(host: str, port: int) -> None:
    """Refuse an address without a port: the address would have no effect."""
    if host and not port:
        raise typer.BadParameter(
            f"found {host!r} and no port; give --metrics-port, too", param_hint="--metrics-host"
        )


def make_directory(path: Path, option: str) -> None:
    """Create a directory for results; an error names the option."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        why = None if os.access(path, os.W_OK | os.X_OK) else "it cannot be written"
    except OSError as error:
        why = error.strerror
    if why is not None:
        raise typer.BadParameter(
            f"{path}: {why}; expected a directory that can be written", param_hint=option
        )


def parse_object_name(text: str, option: str | None = None) -> tuple[str, str]:
    """Return namespace and name of a pod or a Helm release; an error names the option."""
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise typer.BadParameter(
            f"found {text!r}; expected NAMESPACE/NAME, such as shop/web-1", param_hint=option
        )
    return namespace, name


def parse_length_ms(text: str, option: str) -> int:
    """Return a duration above 0; an error names the option."""
    length_ms = duration_ms(text)
    if not length_ms:
        raise typer.BadParameter(
            f"found {text!r}; expected a duration such as 10m, 1h or 2d", param_hint=option
        )
    return length_ms


def topic_names() -> list[str]:
    """Return candidates for shell completion."""
    from schemas.topics.catalog import TOPIC_BY_NAME

    return list(TOPIC_BY_NAME)


def find_topic(name: str) -> "Topic":
    from difflib import get_close_matches

    from schemas.topics.catalog import TOPIC_BY_NAME

    if name not in TOPIC_BY_NAME:
        similar = get_close_matches(name, TOPIC_BY_NAME, n=1)
        names = ", ".join(TOPIC_BY_NAME)
        hint = f"did you mean {similar[0]}?" if similar else f"expected one of {names}"
        raise typer.BadParameter(f"there is no topic {name!r}; {hint}", param_hint="TOPIC")
    return TOPIC_BY_NAME[name]


def read_source_file(file: Path | None) -> "tuple[SourceSettings, ...]":
    """Return the usage sources of a file, or else the default sources."""
    from connectors.kubernetes.sources.registry import list_settings_classes
    from connectors.kubernetes.sources.settings import DEFAULT_TEXT, SourcesError, read_sources

    try:
        text = DEFAULT_TEXT if file is None else file.read_bytes()
        return read_sources(text, list_settings_classes(), str(file or "sources"))
    except SourcesError as error:
        raise typer.BadParameter(f"\n{error}", param_hint="--sources") from None
    except OSError as error:
        raise typer.BadParameter(
            f"{file} cannot be read: {error.strerror}; expected a file of usage sources",
            param_hint="--sources",
        ) from None
