package dashboards

import "time"

// Severities.
const (
	critical = "critical"
	warning  = "warning"
	info     = "info"
)

// Each alert has a section of its own name in docs/alerts.md.
func alerts() []Group {
	return []Group{
		{Name: "llmgov gateways", Rules: gatewayAlerts()},
		{Name: "llmgov upstreams", Rules: upstreamAlerts()},
		{Name: "llmgov shares", Rules: shareAlerts()},
		{Name: "llmgov store", Rules: storeAlerts()},
	}
}

func gatewayAlerts() []Rule {
	return []Rule{
		{
			Alert: "LlmgovGatewayDown", For: 2 * time.Minute, Severity: critical,
			Expr:        `up == 0 and on (job, instance) last_over_time(llmgov_policy_reload_success[1h])`,
			Summary:     "Gateway {{ $labels.instance }} cannot be scraped",
			Description: "{{ $labels.instance }} was a gateway within the last hour, and does not answer on /metrics.",
		},
		{
			Alert: "LlmgovPolicyReloadFailing", For: 5 * time.Minute, Severity: warning,
			Expr:        `llmgov_policy_reload_success == 0`,
			Summary:     "Gateway {{ $labels.instance }} does not understand its policy files",
			Description: "The files were changed, and are invalid. The last valid policy stays in force; the change has no effect.",
		},
		{
			Alert: "LlmgovPoliciesDiffer", For: 10 * time.Minute, Severity: warning,
			Expr:        `count by (job) (count by (job, hash) (llmgov_policy_revision_info)) > 1`,
			Summary:     "Gateways of {{ $labels.job }} have {{ $value }} different policies in force",
			Description: "The same call is decided in different ways, by which gateway it comes to. Where a limit is shared, the least that any of them knows holds.",
		},
		{
			Alert: "LlmgovDrainingLong", For: 5 * time.Minute, Severity: warning,
			Expr:        `llmgov_draining == 1`,
			Summary:     "Gateway {{ $labels.instance }} has been draining for minutes",
			Description: "It was told to stop, and still waits for calls to end. After timeouts.drain it cuts them.",
		},
		{
			Alert: "LlmgovCertificateExpires", For: time.Hour, Severity: warning,
			Expr:        `llmgov_tls_certificate_expires_timestamp_seconds - time() < 7 * 86400`,
			Summary:     "The certificate of {{ $labels.listener }} at gateway {{ $labels.instance }} expires in {{ $value | humanizeDuration }}",
			Description: "Nothing has renewed its files so far, or what is there cannot be used: then the log says why. After that time clients refuse to connect.",
		},
		{
			Alert: "LlmgovKeysRejected", For: 10 * time.Minute, Severity: info,
			Expr:        `sum by (job) (rate(llmgov_requests_total{reason="invalid_api_key"}[5m])) > 1`,
			Summary:     "{{ $value | humanize }} calls a second come with unknown keys",
			Description: "A frequent caller has a key that is mistyped, revoked or expired; or somebody guesses keys.",
		},
	}
}

func upstreamAlerts() []Rule {
	return []Rule{
		{
			Alert: "LlmgovUpstreamDown", For: 2 * time.Minute, Severity: warning,
			Expr:        `min by (job, pool, upstream) (llmgov_upstream_up) == 0`,
			Summary:     "Upstream {{ $labels.upstream }} of pool {{ $labels.pool }} fails",
			Description: "Its last calls failed, so it is left out, and probed by a call now and then. The pool's other upstreams have its part, if there are any.",
		},
		{
			Alert: "LlmgovPoolPaused", For: 2 * time.Minute, Severity: critical,
			Expr:        `max by (job, pool) (llmgov_pool_rate_ratio) == 0`,
			Summary:     "Pool {{ $labels.pool }} is paused",
			Description: "All upstreams of the pool have asked for a pause, in all gateways. Calls wait as far as they may, and are refused.",
		},
		{
			Alert: "LlmgovLimitLowerThanConfigured", For: 5 * time.Minute, Severity: warning,
			Expr:        `max by (job, pool, axis) (llmgov_limit_below_configured) > 0`,
			Summary:     "Pool {{ $labels.pool }} has fewer {{ $labels.axis }} a minute than configured",
			Description: "Its upstreams declare limits, or others use so much of these, that {{ $value }} {{ $labels.axis }} a minute of those in the config are missing. Calls keep to what is left.",
		},
		{
			Alert: "LlmgovUpstreamUsedByOthers", For: 15 * time.Minute, Severity: warning,
			Expr:        `max by (job, pool, upstream) (llmgov_upstream_foreign_ratio) > 0.1`,
			Summary:     "Others use {{ $value | humanizePercentage }} of upstream {{ $labels.upstream }} of pool {{ $labels.pool }}",
			Description: "Other programs call the upstream with the same account. Unless the upstream has heed: off, calls leave them what they use.",
		},
		{
			Alert: "LlmgovErrorRate", For: 5 * time.Minute, Severity: critical,
			Expr:        failed + `{pool!=""} > 0.05`,
			Summary:     "{{ $value | humanizePercentage }} of the calls to pool {{ $labels.pool }} fail",
			Description: "The upstream failed, or broke off in mid-answer, and no other one had an answer.",
		},
		{
			Alert: "LlmgovFirstTokenSlow", For: 10 * time.Minute, Severity: warning,
			Expr:        firstToken + ` > 10`,
			Summary:     "Streams of pool {{ $labels.pool }} begin late",
			Description: "For one stream in twenty it takes more than {{ $value | humanizeDuration }} from admission to the first token. Waits in line are not included.",
		},
		{
			Alert: "LlmgovLeasesExpired", For: 0, Severity: warning,
			Expr:        `increase(llmgov_lease_expired_total[15m]) > 3`,
			Summary:     "Leases of gateway {{ $labels.instance }} end by themselves",
			Description: "{{ $value | humanize }} answers in 15 minutes fell silent for longer than stream_idle, or the previous process died with as many calls in flight.",
		},
		{
			Alert: "LlmgovEstimatesOff", For: 30 * time.Minute, Severity: info,
			Expr:        estimate + ` > 4 or ` + estimate + ` < 0.8`,
			Summary:     `Calls to pool {{ $labels.pool }} are held at {{ printf "%.1f" $value }} times what they take`,
			Description: "Far above 1, limits are full before they are used, because calls hold tokens that they give back later. Below 1, the limit can be exceeded.",
		},
	}
}

func shareAlerts() []Rule {
	return []Rule{
		{
			Alert: "LlmgovPoolNearlyFull", For: 30 * time.Minute, Severity: info,
			// The mean, because a full pool's usage moves: one moment below would restart the half hour.
			Expr:        `avg_over_time(` + used + `[5m]) > 0.9`,
			Summary:     "Pool {{ $labels.pool }} has been full for half an hour",
			Description: "{{ $value | humanizePercentage }} of its fullest limit is in use. Shares decide between tenants; calls beyond them wait or are refused.",
		},
		{
			Alert: "LlmgovQueueFull", For: 5 * time.Minute, Severity: warning,
			Expr:        `sum by (job, pool) (rate(llmgov_requests_total{outcome="refused", reason="overloaded"}[5m])) > 0`,
			Summary:     "The queue of pool {{ $labels.pool }} is full",
			Description: `More calls wait than max_queue allows: {{ printf "%.2f" $value }} a second are answered with 503 overloaded.`,
		},
		{
			Alert: "LlmgovTenantStarved", For: 5 * time.Minute, Severity: warning,
			Expr: received + ` / (` + entitled + ` > 0.01) < 0.5
				and sum by (job, tenant, pool) (llmgov_queue_depth) > 0`,
			Summary:     "Tenant {{ $labels.tenant }} gets too little of pool {{ $labels.pool }}",
			Description: "It received {{ $value | humanizePercentage }} of what it was entitled to in the last minute, and its calls wait.",
		},
		{
			Alert: "LlmgovPoolUnfair", For: 10 * time.Minute, Severity: warning,
			Expr:        `min by (job, pool) (llmgov_fairness_jain_index) < 0.9`,
			Summary:     "Pool {{ $labels.pool }} is not shared as its weights say",
			Description: `Jain's index over received / entitled of its tenants is {{ printf "%.2f" $value }}; it is above 0.97 as a rule.`,
		},
		{
			Alert: "LlmgovUnusedWhileWaiting", For: 10 * time.Minute, Severity: warning,
			// Not for pools that are cut off from their store, which have an alert of their own.
			Expr:        unused + ` > 0.02 unless on (job, pool) max_over_time(llmgov_degraded[10m]) == 1`,
			Summary:     "Pool {{ $labels.pool }} leaves tokens unused while calls wait for them",
			Description: "{{ $value | humanizePercentage }} of its limit could have been granted, and was not.",
		},
		{
			Alert: "LlmgovBudgetNearlySpent", For: 5 * time.Minute, Severity: info,
			Expr:        `max by (job, tenant, per) (llmgov_budget_used_ratio) > 0.9`,
			Summary:     `Budget a {{ $labels.per }} of {{ if $labels.tenant }}tenant {{ $labels.tenant }}{{ else }}a pool{{ end }} is nearly spent`,
			Description: "{{ $value | humanizePercentage }} is used, tokens held included. At 100 %, calls are refused with insufficient_quota until it resets.",
		},
	}
}

func storeAlerts() []Rule {
	return []Rule{
		{
			Alert: "LlmgovStoreDown", For: time.Minute, Severity: critical,
			Expr:        `llmgov_store_up == 0`,
			Summary:     "Gateway {{ $labels.instance }} cannot reach its store",
			Description: "The store that gateways share does not answer, or state_dir cannot be written. Grants last 2.5 s; then on_store_loss decides.",
		},
		{
			Alert: "LlmgovStoreUnreadable", For: time.Minute, Severity: critical,
			Expr:        `llmgov_store_unreadable_accounts > 0`,
			Summary:     "The store cannot read {{ $value }} accounts of limits for gateway {{ $labels.instance }}",
			Description: "Somebody else has written to them, or another release has. Nothing is granted of these limits, unless on_store_loss is open: calls of their tenants are refused. The log says what to delete.",
		},
		{
			Alert: "LlmgovDegraded", For: time.Minute, Severity: critical,
			// A new store grants nothing for a minute, which is normal; longer is a fault.
			Expr: `max by (job, pool, mode) (llmgov_degraded{mode!="learning"}) == 1
				or max by (job, pool, mode) (llmgov_degraded{mode="learning"} == 1 and llmgov_degraded{mode="learning"} offset 1m == 1)`,
			Summary:     "Pool {{ $labels.pool }} is degraded: {{ $labels.mode }}",
			Description: "Some gateway has no grant from the store. closed: it grants nothing. local: a withheld part. open: the whole limit, in each gateway. learning: the store is new, or has lost data.",
		},
		{
			Alert: "LlmgovStoreSlow", For: 10 * time.Minute, Severity: warning,
			Expr:        storeAnswer + ` > 0.25`,
			Summary:     "The store answers gateway {{ $labels.instance }} slowly",
			Description: "One beat in a hundred takes more than {{ $value | humanizeDuration }}. Above a quarter of a second grants come late, above a second not at all.",
		},
	}
}
