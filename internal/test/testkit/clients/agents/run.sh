#!/usr/bin/env bash
# Runs docs/clients.md's recipes with the coding agents themselves: installs what is missing, builds llmgov, and tests. AGENTS are the names of
# those that are run, with commas; by default all. Arguments go to node. The agents' packages take 2 GB, and are for Linux on x86-64.
set -euo pipefail
cd "$(dirname "$0")"
target=test-agents
source ../../../../../.ci/tools.sh

# The smoke of test-clients is a turn of the two that have no dependencies.
if [ -n "${SMOKE:-}" ]; then
	export npm_config_omit=optional AGENTS="Claude Code,opencode"
	set -- --test-name-pattern='a turn with a tool'
elif [ ! -d node_modules/@openai ]; then
	rm -f node_modules/.installed
fi
npm_packages
# These name packages for other systems that registries do not all have, so that no package-lock.json can hold them.
[ -n "${SMOKE:-}" ] || [ -d node_modules/@qwen-code ] || npm install --no-save --no-audit --no-fund --loglevel=error cline@3.0.65 @qwen-code/qwen-code@0.24.4
case ",${AGENTS:-aider}," in
*,aider,*) python_packages python ;;
esac
[ -n "${LLMGOV:-}" ] || build_llmgov ../../../../..
"$node" --test-force-exit --test-reporter=spec "$@" agents.test.mjs
[ -z "${SMOKE:-}${AGENTS:-}" ] || exit 0

# The proxy of docs/configuration.md in front of the admin side, which takes minutes to build for the first time.
OAUTH2_PROXY=$(dirname "$LLMGOV")/oauth2-proxy
GOFLAGS=-trimpath GOBIN=$(dirname "$LLMGOV") again go install github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6
export OAUTH2_PROXY
cd ..
npm_packages
"$node" --test-force-exit --test-reporter=spec people.test.mjs
