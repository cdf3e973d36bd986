#!/usr/bin/env bash
# Compares the gateway with other readers of bodies and forms, for TIME each (60s). Installs them first.
# SEED makes the same bodies and forms again. Arguments go to go test, such as -run Forms.
set -euo pipefail
cd "$(dirname "$0")"
target=fuzz-readers
source ../../../.ci/tools.sh

npm_packages
python_packages old
python_packages new
NODE=$(realpath "$(command -v "$node")") go test -count 1 -timeout 0 -v "$@" . -readers -for "${TIME:-60s}" ${SEED:+-seed "$SEED"}
