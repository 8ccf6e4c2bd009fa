#!/bin/sh
# Install loadstream into an empty folder by the locks: versions and hashes of everything, and no
# installer in it, since nothing installs there later. The image is built by this script, and a test runs it.
#   deploy/install.sh FOLDER     from the top of the repository; PYTHON names the interpreter
set -eu
folder=$1
python=${PYTHON:-python3.11}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT

"$python" -m venv "$build/venv"
pip() {
  "$build/venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"
}
pip install --quiet --require-hashes -r locks/build.txt
"$python" -m venv --without-pip "$folder"
pip --python "$folder/bin/python" install --quiet --require-hashes -r locks/run.txt
pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$build/wheels" .
pip --python "$folder/bin/python" install --quiet --no-deps "$build"/wheels/*
