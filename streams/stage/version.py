"""The version of loadstream that runs, as it was installed."""

from importlib.metadata import version

VERSION = version("loadstream")
