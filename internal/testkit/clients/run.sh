#!/usr/bin/env bash
# Runs the clients' contract: installs what is missing, builds llmgov, and tests.
# Arguments go to node, such as --test-name-pattern='spent budget'.
set -euo pipefail
cd "$(dirname "$0")"
target=test-clients
source ../../../.ci/tools.sh

npm_packages
build_llmgov ../../..
# Forced to exit: a client that wrongly waits for a budget's next month would keep it running.
"$node" --test-force-exit --test-reporter=spec "$@" clients.test.mjs
