#!/usr/bin/env bash
# Asks a real Prometheus every query of the dashboards and rules, while it scrapes real
# gateways under load, and runs the cases of the alerts. Installs what is missing.
set -euo pipefail
cd "$(dirname "$0")"

install() { # install PROGRAM PACKAGE
	if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
		echo "test-dashboards needs $1: install it, from https://prometheus.io or your system's packages" >&2
		exit 1
	fi
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "$2"
}
for program in prometheus promtool; do
	command -v "$program" >/dev/null || install "$program" prometheus
done
if ! command -v initdb >/dev/null && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
	install "a PostgreSQL server" postgresql
fi

# testdata/export is what is exported: the tests of the package see to that.
go test .
promtool check config testdata/export/prometheus/prometheus.yml
promtool test rules testdata/alerts.test.yml
CI=true go test -run '^TestDashboards$' -count 1 -timeout 10m -v ../cmd/llmgov -prometheus
