package dashboards

import (
	"fmt"
	"strings"
	"time"
)

// Rule is a rule of Prometheus: a recording, or an alert.
type Rule struct {
	Record string // the name of a recording; "" for an alert

	Alert                string
	For                  time.Duration // the time that it must hold before the alert fires
	Severity             string        // critical: act now; warning: act today; info: to know
	Summary, Description string

	Expr string
}

// Group are rules that are evaluated one after the other.
type Group struct {
	Name  string
	Rules []Rule
}

// Runbook is the address of the section on the alert's meaning and remedies.
func (r Rule) Runbook() string {
	return "https://github.com/llmgov/llmgov/blob/main/docs/alerts.md#" + strings.ToLower(r.Alert)
}

// Names of recordings: labels, metric and operation.
const (
	used        = "job_pool:llmgov_pool_used:ratio" // of the fullest of its limits
	calls       = "job_tenant_pool_outcome:llmgov_requests:rate5m"
	failed      = "job_pool:llmgov_requests_failed:ratio_rate5m"
	taken       = "job_tenant_pool:llmgov_tokens_taken:rate5m"
	received    = "job_tenant_pool:llmgov_share_received:ratio"
	entitled    = "job_tenant_pool:llmgov_share_entitled:ratio"
	unused      = "job_pool:llmgov_unused_while_waiting:ratio_rate5m"
	firstToken  = "job_pool:llmgov_time_to_first_token_seconds:p95_5m"
	estimate    = "job_pool:llmgov_estimate_error_ratio:p50_30m"
	storeAnswer = "job_instance:llmgov_store_latency_seconds:p99_5m"
)

func recordings() Group {
	return Group{Name: "llmgov recordings", Rules: []Rule{
		{Record: used, Expr: `max by (job, pool) (` + axes("job, pool", "{}") + `)`},
		{Record: calls, Expr: `sum by (job, tenant, pool, outcome) (rate(llmgov_requests_total[5m]))`},
		// 0 if none fails; a pool without calls has no ratio.
		{Record: failed, Expr: `(sum by (job, pool) (` + calls + `{outcome="failed"}) or 0 * sum by (job, pool) (` + calls + `)) / (sum by (job, pool) (` + calls + `) > 0)`},
		{Record: taken, Expr: `sum by (job, tenant, pool) (rate(llmgov_tokens_total{kind=~"input|output"}[5m]))`},
		{Record: received, Expr: `sum by (job, tenant, pool) (llmgov_share_received_ratio)`},
		{Record: entitled, Expr: `sum by (job, tenant, pool) (llmgov_share_entitled_ratio)`},
		{Record: unused, Expr: `60 * sum by (job, pool) (rate(llmgov_unused_while_waiting_tokens_total[5m])) / max by (job, pool) (llmgov_pool_tokens_limit)`},
		{Record: firstToken, Expr: quantile(.95, "job, pool", "llmgov_time_to_first_token_seconds_bucket", "5m")},
		{Record: estimate, Expr: quantile(.5, "job, pool", "llmgov_estimate_error_ratio_bucket", "30m")},
		{Record: storeAnswer, Expr: quantile(.99, "job, instance", `llmgov_store_latency_seconds_bucket{op="beat"}`, "5m")},
	}}
}

// YAML is the file of the groups for Prometheus. All texts are quoted as in JSON, which is valid in YAML.
func YAML(groups []Group) string {
	var b strings.Builder
	b.WriteString("# Written by llmgov dashboards export: changes are lost with the next one.\ngroups:\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "  - name: %s\n    rules:\n", g.Name)
		for _, r := range g.Rules {
			r.write(&b)
		}
	}
	return b.String()
}

func (r Rule) write(b *strings.Builder) {
	if r.Record != "" {
		fmt.Fprintf(b, "      - record: %s\n", r.Record)
	} else {
		fmt.Fprintf(b, "      - alert: %s\n", r.Alert)
	}
	b.WriteString("        expr: |\n")
	for line := range strings.Lines(r.Expr) {
		fmt.Fprintf(b, "          %s\n", strings.TrimSpace(line))
	}
	if r.Record != "" {
		return
	}
	fmt.Fprintf(b, "        for: %s\n        labels:\n          severity: %s\n        annotations:\n", minutes(r.For), r.Severity)
	fmt.Fprintf(b, "          summary: %q\n          description: %q\n          runbook_url: %q\n", r.Summary, r.Description, r.Runbook())
}

func minutes(d time.Duration) string { return fmt.Sprintf("%dm", d/time.Minute) }
