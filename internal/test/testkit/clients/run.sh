#!/usr/bin/env bash
# Runs the clients' contract: installs what is missing, builds llmgov, and tests with clients for JavaScript and Python.
# Arguments go to node, such as --test-name-pattern='spent budget'; with arguments, Python's clients are left out.
set -euo pipefail
cd "$(dirname "$0")"
target=test-clients
source ../../../../.ci/tools.sh

npm_packages
build_llmgov ../../../..
# Forced to exit: a client that wrongly waits for a budget's next month would keep it running.
"$node" --test-force-exit --test-reporter=spec "$@" clients.test.mjs
"$node" --test-force-exit --test-reporter=spec "$@" identity.test.mjs
[ $# -eq 0 ] || exit 0

# litellm is alone in its environment: it wants an older openai than the others.
python_packages python
python_packages python/litellm
export LITELLM_LOCAL_MODEL_COST_MAP=True PYTHONDONTWRITEBYTECODE=1
cd python
.venv/bin/python -m pytest -q -p no:cacheprovider --disable-warnings --clients openai_sdk,anthropic_sdk,langchain_sdk,pydantic_ai_sdk,agents_sdk
litellm/.venv/bin/python -m pytest -q -p no:cacheprovider --disable-warnings --clients litellm_sdk
cd ../agents
SMOKE=1 ./run.sh
