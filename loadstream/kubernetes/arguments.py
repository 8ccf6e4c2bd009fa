"""Arguments of several commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from connectors.kubernetes.sources.settings import SourceSettings

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


def read_source_file(file: Path | None) -> "tuple[SourceSettings, ...]":
    """Return the usage sources of a file; without a file, the default sources."""
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
