#!/usr/bin/env bash
# Compares llmgov with Envoy, LiteLLM and a bare reverse proxy, each by its real program, and writes docs/comparison.json and the
# tables of docs/comparison.md. Arguments go to the command: -dry prints and writes nothing, -help lists them.
set -euo pipefail
cd "$(dirname "$0")/../../.."
target='make versus'
source .ci/tools.sh

need redis-server redis-server
need taskset util-linux
doors=internal/test/e2e/doors
python_packages $doors/envoy
python_packages $doors/litellm
build_llmgov .

# Envoy's rate limit service has no releases: this is what @latest was when the page was first written.
RATELIMIT_VERSION=v1.4.1-0.20260122083618-3fb702589d36
RATELIMIT=$(dirname "$LLMGOV")/service_cmd
GOBIN=$(dirname "$LLMGOV") go install "github.com/envoyproxy/ratelimit/src/service_cmd@$RATELIMIT_VERSION"
go build -o "$(dirname "$LLMGOV")/versus" ./internal/lab/versus

ENVOY=$($doors/envoy/.venv/bin/python -c 'import pathlib, envoy; print(pathlib.Path(envoy.__file__).parent / "_bin" / "envoy")')
LITELLM=$PWD/$doors/litellm/.venv/bin/litellm
export ENVOY LITELLM RATELIMIT RATELIMIT_VERSION
"$(dirname "$LLMGOV")/versus" "$@"
