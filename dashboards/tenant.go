package dashboards

import "fmt"

// tenant is one tenant's own page: what it has, what it used, and why it was refused.
func tenant() Dashboard {
	d := dashboard("tenant", "Tenant", "One tenant: its calls, shares, limits, budgets and teams.", tenants().one())
	const teams = `tenant=~"$tenant/.+"`
	d.row("$tenant",
		stat("Calls", "Calls a second, refused ones included.", "reqps", 4, query(`sum(rate(llmgov_requests_total{@gateway, @pool, @tenant}[$__rate_interval]))`, "")),
		stat("Tokens", "Tokens a minute that calls really took.", "short", 4, query(`60 * sum(rate(llmgov_tokens_total{@gateway, @pool, @tenant, kind=~"input|output"}[$__rate_interval]))`, "")),
		stat("Refused", "Part of its calls that llmgov refused.", "percentunit", 4, query(partOf(`outcome="refused"`, ""), "")).from(good, .1, fair, .5, bad),
		stat("Failed", "Part of its calls whose upstream failed, or broke off.", "percentunit", 4, query(partOf(`outcome="failed"`, ""), "")).from(good, .01, fair, .05, bad),
		stat("Running", "Calls that run, streams included.", "short", 4, query(`sum(llmgov_inflight_requests{@gateway, @pool, @tenant})`, "")),
		stat("Waiting", "Calls in line, for a pool or for a limit of its own.", "short", 4, query(`sum(llmgov_queue_depth{@gateway, @pool, @tenant})`, "")),
	)
	d.row("What became of its calls",
		series("By outcome", "What became of its calls.", "reqps", 12, query(`sum by (outcome) (rate(llmgov_requests_total{@gateway, @pool, @tenant}[$__rate_interval]))`, "{{outcome}}")).stacked(),
		series("Refusals by reason", "requests, tokens, concurrency: a limit. share: others wait too. budget: spent. llmgov explain shows which limit decides.", "reqps", 12,
			query(`sum by (pool, reason) (rate(llmgov_requests_total{@gateway, @pool, @tenant, outcome="refused"}[$__rate_interval]))`, "{{reason}} {{pool}}")).stacked().anyway("none"),
		series("Tokens by kind", "Tokens a minute. held is what calls could take at most when they were admitted, refunded what they did not. cached_input is part of input, reasoning of output.", "short", 12,
			query(`60 * sum by (kind) (rate(llmgov_tokens_total{@gateway, @pool, @tenant}[$__rate_interval]))`, "{{kind}}")),
		series("Waits of its tier", "Percentiles of the time to admission, of all tenants of the same tier in the pools that this one uses.", "s", 12,
			query(tierWait(.5), "median {{pool}}"), query(tierWait(.95), "95 % {{pool}}")),
	)
	d.row("Shares of pools",
		series("Received and entitled", "What it had, and was entitled to, of the pool's last minute.", "percentunit", 12,
			query(`sum by (pool) (llmgov_share_received_ratio{@gateway, @pool, @tenant})`, "received {{pool}}"), query(`sum by (pool) (llmgov_share_entitled_ratio{@gateway, @pool, @tenant})`, "entitled {{pool}}")),
		series("Borrowed, lent, debt", "Tokens a minute that it had beyond its weight, or left to others; and how many tokens it is ahead of its siblings.", "short", 12,
			query(`60 * sum by (pool) (rate(llmgov_borrowed_tokens_total{@gateway, @pool, @tenant}[$__rate_interval]))`, "borrowed {{pool}}"),
			query(`60 * sum by (pool) (rate(llmgov_lent_tokens_total{@gateway, @pool, @tenant}[$__rate_interval]))`, "lent {{pool}}"),
			query(`sum by (pool) (llmgov_debt_tokens{@gateway, @pool, @tenant})`, "debt {{pool}}")),
	)
	d.row("Limits and budgets",
		series("Own limits", "How much of each of its own limits is used, in the gateway where that is most. Without a pool: over all pools.", "percentunit", 8,
			query(`max by (pool, axis) (llmgov_used{@gateway, @pool, @tenant} / llmgov_limit{@gateway, @pool, @tenant})`, "{{axis}} {{pool}}")).from(good, .8, fair, 1.0, bad).line().anyway("no limits of its own"),
		series("Budgets", "How much of each period's fullest budget is used, held included.", "percentunit", 8,
			query(`max by (per) (llmgov_budget_used_ratio{@gateway, @tenant})`, "a {{per}}")).from(good, .8, fair, 1.0, bad).line().anyway("no budgets"),
		series("Refused, if it were not for shadow", "Calls that went although a limit would have refused them, for the tenant is in shadow.", "reqps", 8,
			query(`sum by (pool, reason) (rate(llmgov_shadow_refused_total{@gateway, @pool, @tenant}[$__rate_interval]))`, "{{reason}} {{pool}}")).stacked().anyway("not in shadow, or none"),
	)
	d.row("Teams",
		series("Tokens by team", "Tokens a minute that the calls of its teams really took. They are not in the figures above.", "short", 12,
			query(`60 * sum by (tenant) (rate(llmgov_tokens_total{@gateway, @pool, `+teams+`, kind=~"input|output"}[$__rate_interval]))`, "{{tenant}}")).stacked().toTenant().anyway("no teams"),
		series("Refusals by team", "Refused calls a second.", "reqps", 12,
			query(`sum by (tenant, reason) (rate(llmgov_requests_total{@gateway, @pool, `+teams+`, outcome="refused"}[$__rate_interval]))`, "{{tenant}} {{reason}}")).stacked().toTenant().anyway("none"),
	)
	return *d
}

// tierWait is a percentile of the waits in the tenant's tier.
func tierWait(q float64) string {
	return fmt.Sprintf(`histogram_quantile(%g, sum by (pool, le) (rate(llmgov_queue_wait_seconds_bucket{@gateway, @pool}[$__rate_interval])
		and on (job, instance, tier, pool) llmgov_requests_total{@gateway, @pool, @tenant}))`, q)
}
