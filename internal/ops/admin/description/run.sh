#!/usr/bin/env bash
# The admin API and the admission API against their descriptions: schemathesis sends what the description allows, and what it does not, to a live
# gateway; there must be no 500, and no answer that the description does not have.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../../../.. && pwd)
target="make test-api"
. "$root/.ci/tools.sh"
python_packages .
build_llmgov "$root"

work=$(mktemp -d)
token=0123456789abcdef0123456789abcdef
cat >"$work/llmgov.yaml" <<YAML
listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0", token: $token}
admission: {listen: "127.0.0.1:0", token: $token}
upstreams: {nobody: {base_url: "http://127.0.0.1:9/v1", api_key: none}}
pools: {gpt-4o: {models: [gpt-4o], upstream: nobody, tpm: 100000, rpm: 100, concurrency: 4, budgets: [{usd: 5, per: day}]}}
prices: {gpt-4o: {input: 1, output: 2}}
policies: ["$work/tenants.yaml"]
keys_file: $work/keys.yaml
YAML
cat >"$work/tenants.yaml" <<YAML
tenants: {acme: {rpm: 10, keys: ["sha256:1111111111111111111111111111111111111111111111111111111111111111"], teams: {search: {keys: []}}}}
YAML
: >"$work/log"
"$LLMGOV" serve -c "$work/llmgov.yaml" >"$work/log" 2>&1 &
gateway=$!
trap 'kill $gateway; rm -rf "$work" "$(dirname "$LLMGOV")"' EXIT
for _ in $(seq 600); do
	address=$(sed -nE 's/.*admin on (http:[^ ,"]+).*/\1/p' "$work/log" | head -n 1)
	[ -z "$address" ] || break
	sleep 0.1
done
if [ -z "$address" ]; then
	cat "$work/log"
	exit 1
fi
admission=$(sed -nE 's/.*admission on (http:[^ ,"]+).*/\1/p' "$work/log" | head -n 1)
here=$PWD
cd "$work" && cp "$here/schemathesis.toml" .

# check DESCRIPTION OPTIONS… tries a description out: with the same examples each time, however long a busy machine takes to make them.
check() {
	"$here/.venv/bin/schemathesis" run "$1" --header "Authorization: Bearer $token" --max-examples "${EXAMPLES:-30}" --no-color \
		--generation-deterministic --suppress-health-check too_slow \
		--checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,ignored_auth "${@:2}"
}

# Streams of events do not end, and a drain ends the gateway.
check "$address/api/openapi.json" --url "$address" --exclude-path /api/v1/drain --exclude-path /api/v1/events
check "$admission/openapi.json" --url "$admission"
