# What the scripts of tests with other programs share. They set `target` to their make target.

# again COMMAND… runs what loads from the network, and once more after ten seconds and after a minute if it fails: go has no
# option for that.
again() {
	local pause
	for pause in 10 60; do
		if "$@"; then return; fi
		echo "it failed, and is tried again in $pause s: $*" >&2
		sleep "$pause"
	done
	"$@"
}

# debian_packages PACKAGE… installs them.
debian_packages() {
	local options=(-q -o Acquire::Retries=5 -o DPkg::Lock::Timeout=120)
	apt-get "${options[@]}" update
	DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y --no-install-recommends "$@"
}

# need COMMAND PACKAGE… installs Debian's packages where a command is missing.
need() {
	if command -v "$1" >/dev/null; then return; fi
	if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
		echo "$target needs $1: install it, with your system's packages or from its site" >&2
		exit 1
	fi
	debian_packages "${@:2}"
}

# npm_packages installs exactly what package-lock.json says; it is left out where that has been
# done since the file changed. It sets `node`: tests run on the Node.js that is among the
# packages, so the engines that these ask for are not npm's own.
npm_packages() {
	need npm nodejs npm
	local npm_ci=(npm ci --loglevel=error --fetch-retries=6 --fetch-retry-maxtimeout=30000)
	if ! cmp -s package-lock.json node_modules/.installed; then
		"${npm_ci[@]}"
		# npm leaves out an optional package without a word if its download fails once.
		if grep -q node-linux- package.json && ! compgen -G 'node_modules/node-linux-*' >/dev/null; then
			"${npm_ci[@]}"
		fi
		cp package-lock.json node_modules/.installed
	fi
	node=$(find node_modules/node-linux-* -path '*/bin/node' -perm -u+x 2>/dev/null | head -n 1 || true)
	if [ -z "$node" ]; then # no package for this system: its own has to do
		node=node
		"$node" -e 'if (process.versions.node.split(".")[0] < 22) { console.error(`'"$target"' needs Node.js 22 or later, not ${process.version}`); process.exit(1) }'
	fi
}

# build_llmgov ROOT builds the command, sets LLMGOV to it, and takes it away at the end.
build_llmgov() {
	local binary
	binary=$(mktemp -d)
	# shellcheck disable=SC2064 # now is when the folder is known
	trap "rm -rf '$binary'" EXIT
	go build -o "$binary/llmgov" "$1/cmd/llmgov"
	export LLMGOV="$binary/llmgov"
}

# python_packages FOLDER makes FOLDER/.venv with exactly what FOLDER/requirements.txt says; it is left out
# where that has been done since the file changed.
python_packages() {
	need python3 python3 python3-venv
	if ! cmp -s "$1/requirements.txt" "$1/.venv/.installed"; then
		python3 -m venv --clear "$1/.venv"
		"$1/.venv/bin/pip" install --quiet --retries 10 --timeout 60 --disable-pip-version-check --no-deps -r "$1/requirements.txt"
		cp "$1/requirements.txt" "$1/.venv/.installed"
	fi
}
