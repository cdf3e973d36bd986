#!/usr/bin/env bash
# Runs the console's tests in a real browser: installs what is missing, builds llmgov, and
# tests. Arguments go to node, such as --test-name-pattern=keyboard. With PICTURES=1 the
# pictures in docs/images are made again.
set -euo pipefail
cd "$(dirname "$0")/browser"

need() { # command, packages of Debian's
	if command -v "$1" >/dev/null; then return; fi
	if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
		echo "test-console needs $1: install it with your system's packages" >&2
		exit 1
	fi
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "${@:2}"
}
need npm nodejs npm
need chromium chromium fonts-dejavu-core

# As internal/clients/run.sh does: exactly what package-lock.json says, once.
if ! cmp -s package-lock.json node_modules/.installed; then
	npm ci --loglevel=error
	cp package-lock.json node_modules/.installed
fi
node=$(find node_modules/node-linux-* -path '*/bin/node' -perm -u+x 2>/dev/null | head -n 1 || true)
if [ -z "$node" ]; then # no package for this system: its own has to do
	node=node
	"$node" -e 'if (process.versions.node.split(".")[0] < 22) { console.error(`test-console needs Node.js 22 or later, not ${process.version}`); process.exit(1) }'
fi

binary=$(mktemp -d)
trap 'rm -rf "$binary"' EXIT
go build -o "$binary/llmgov" ../../../cmd/llmgov
LLMGOV="$binary/llmgov" "$node" --test --test-concurrency=1 --test-force-exit --test-reporter=spec "$@" *.test.mjs
