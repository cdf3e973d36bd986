#!/usr/bin/env bash
# Runs the suite of doors through the real LiteLLM proxy of PyPI, with integrations/litellm/llmgov.py. Arguments go to go test,
# such as -run 'TestDoors/LiteLLM/budget'.
set -euo pipefail
cd "$(dirname "$0")"
target=test-litellm
source ../../../../../.ci/tools.sh

python_packages .
export LITELLM=$PWD/.venv/bin/litellm
[ $# -gt 0 ] || set -- -v -run TestDoors/LiteLLM
go test -timeout 15m "$@" ..
