#!/usr/bin/env bash
# Runs the console's tests in a real browser: installs what is missing, builds llmgov, and
# tests. Arguments go to node, such as --test-name-pattern=keyboard. With PICTURES=1 the
# pictures in docs/images are made again.
set -euo pipefail
cd "$(dirname "$0")/browser"
target=test-console
source ../../../../.ci/tools.sh

need chromium chromium fonts-dejavu-core
[ -z "${PICTURES-}" ] || need /usr/bin/convert imagemagick
npm_packages
build_llmgov ../../../..
"$node" --test --test-concurrency=1 --test-force-exit --test-reporter=spec "$@" *.test.mjs
