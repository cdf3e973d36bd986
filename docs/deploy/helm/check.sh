#!/usr/bin/env bash
# The chart: linted and rendered by Helm with the values of ci/, what comes out validated against Kubernetes' schemas, and
# the files of llmgov in it by llmgov itself.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../../.. && pwd)
target="make test-chart"
. "$root/.ci/tools.sh"
python_packages .
build_llmgov "$root"
# A Helm that go run built does not know for which Kubernetes it is.
kubernetes=1.34
helm() { go run helm.sh/helm/v3/cmd/helm@v3.22.0 "$@"; }
again helm version --short

out=$(mktemp -d)
for values in llmgov/ci/*.yaml; do
	name=$(basename "$values" .yaml)
	helm lint --quiet --strict llmgov -f "$values"
	helm template gw llmgov --kube-version "$kubernetes" -f "$values" >"$out/$name.yaml"
	.venv/bin/kubernetes-validate --kubernetes-version "$kubernetes" --strict --quiet "$out/$name.yaml"
	.venv/bin/python files.py "$out/$name.yaml" "$out/$name"
	ADMIN_TOKEN=0123456789abcdef0123456789abcdef STORE_URL=redis://redis:6379/0 OPENAI_API_KEY=sk-x "$LLMGOV" check -c "$out/$name/llmgov.yaml"
done

helm template gw llmgov --kube-version "$kubernetes" -f llmgov/ci/small.yaml --set existingPolicies=of-the-team >"$out/policies.yaml"
grep -q 'configMap: {name: of-the-team}' "$out/policies.yaml"
if grep -q 'name: gw-llmgov-policies' "$out/policies.yaml"; then
	echo "$target: a ConfigMap of policies was made beside existingPolicies" >&2
	exit 1
fi

# refused WORDS… are in the error of a chart with the values of standard input.
refused() {
	if helm template gw llmgov --kube-version "$kubernetes" -f - 2>"$out/error" >/dev/null; then
		echo "$target: values that are wrong were rendered; expected: $*" >&2
		exit 1
	fi
	grep -q -- "$*" "$out/error" || { cat "$out/error" >&2; exit 1; }
}
refused "additional properties 'replica' not allowed" <<<'replica: 3'
refused "several gateways would each grant the provider's whole limit" <<<'store: false'
rm -r "$out"
echo "$target: the chart is valid for Kubernetes $kubernetes"
