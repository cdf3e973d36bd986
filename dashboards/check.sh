#!/usr/bin/env bash
# Asks a real Prometheus every query of the dashboards and rules, while it scrapes real
# gateways under load, and runs the cases of the alerts. Installs what is missing.
set -euo pipefail
cd "$(dirname "$0")"

target=test-dashboards
source ../.ci/tools.sh

need prometheus prometheus
need promtool prometheus
if ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
	need initdb postgresql
fi

# testdata/export is what is exported: the tests of the package see to that.
go test .
promtool check config testdata/export/prometheus/prometheus.yml
promtool test rules testdata/alerts.test.yml
CI=true go test -run '^TestDashboards$' -count 1 -timeout 10m -v ../internal/test/e2e/dashboards -prometheus
