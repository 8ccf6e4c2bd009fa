"""The version of loadstream that runs, as it was installed."""

from importlib.metadata import PackageNotFoundError, version


def _read_version() -> str:
    try:
        return version("loadstream")
    except PackageNotFoundError:
        return "unknown"


VERSION = _read_version()
