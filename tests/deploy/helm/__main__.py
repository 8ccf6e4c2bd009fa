"""Run Helm: `python -m tests.deploy.helm ARGUMENTS`."""

import os
import sys

from tests.deploy.helm.chart import build

os.execv(build(), ["helm", *sys.argv[1:]])  # noqa: S606 - the program that was asked for
