#!/usr/bin/env bash
# Runs the clients' contract: installs what is missing, builds llmgov, and tests.
# Arguments go to node, such as --test-name-pattern='spent budget'.
set -euo pipefail
cd "$(dirname "$0")"

if ! command -v npm >/dev/null; then
	if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
		echo "test-clients needs npm: install Node.js, from https://nodejs.org or your system's packages" >&2
		exit 1
	fi
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends nodejs npm
fi

# npm ci installs exactly what package-lock.json says; it is left out where that
# has been done since the file changed. The engines that packages ask for are not
# npm's own: the tests run on the Node.js that is among the packages.
if ! cmp -s package-lock.json node_modules/.installed; then
	npm ci --loglevel=error
	cp package-lock.json node_modules/.installed
fi
node=$(find node_modules/node-linux-* -path '*/bin/node' -perm -u+x 2>/dev/null | head -n 1 || true)
if [ -z "$node" ]; then # no package for this system: its own has to do
	node=node
	"$node" -e 'if (process.versions.node.split(".")[0] < 22) { console.error(`test-clients needs Node.js 22 or later, not ${process.version}`); process.exit(1) }'
fi

binary=$(mktemp -d)
trap 'rm -rf "$binary"' EXIT
go build -o "$binary/llmgov" ../../cmd/llmgov
# Forced to exit: a client that wrongly waits for a budget's next month would keep it running.
LLMGOV="$binary/llmgov" "$node" --test-force-exit --test-reporter=spec "$@" clients.test.mjs
