package dashboards

// fairness is who was entitled to what, and got it. docs/api.md says what each figure is.
func fairness() Dashboard {
	d := dashboard("fairness", "Fairness", "What tenants were entitled to of each pool, what they received, and what was lent, borrowed and left unused.", tenants())
	const (
		received = `sum by (tenant, pool) (llmgov_share_received_ratio{@gateway, @pool, @tenant})`
		entitled = `sum by (tenant, pool) (llmgov_share_entitled_ratio{@gateway, @pool, @tenant})`
		unused   = `60 * sum by (pool) (rate(llmgov_unused_while_waiting_tokens_total{@gateway, @pool}[$__rate_interval])) / max by (pool) (llmgov_pool_tokens_limit{@gateway, @pool})`
		borrowed = `60 * sum by (tenant, pool) (rate(llmgov_borrowed_tokens_total{@gateway, @pool, @tenant}[$__rate_interval]))`
		lent     = `60 * sum by (tenant, pool) (rate(llmgov_lent_tokens_total{@gateway, @pool, @tenant}[$__rate_interval]))`
	)
	d.row("Is it fair?",
		stat("Jain's index", "Over received / entitled of all tenants in the last minute, of the pool and gateway where it is worst. 1: all had the same part of what they were entitled to.", "none", 8,
			query(`min(llmgov_fairness_jain_index{@gateway, @pool})`, "")).from(bad, .8, fair, .95, good).upTo(1),
		stat("Largest deviation", "The largest distance of received / entitled from 1 in the last minute, of any tenant.", "percentunit", 8,
			query(`max(llmgov_fairness_max_deviation_ratio{@gateway, @pool})`, "")).from(good, .1, fair, .25, bad),
		stat("Unused while calls waited", "What a pool could have handed out to calls that waited, and did not, as a part of its limit. It should be 0.", "percentunit", 8,
			query(`max(`+unused+`)`, "")).from(good, .005, fair, .02, bad),
		series("Jain's index by pool", "The lowest of any gateway.", "none", 8, query(`min by (pool) (llmgov_fairness_jain_index{@gateway, @pool})`, "{{pool}}")).upTo(1),
		series("Largest deviation by pool", "The largest of any gateway.", "percentunit", 8, query(`max by (pool) (llmgov_fairness_max_deviation_ratio{@gateway, @pool})`, "{{pool}}")).from(good, .25, bad).line(),
		series("Unused while calls waited, by pool", "As a part of the limit.", "percentunit", 8, query(unused, "{{pool}}")).from(good, .02, bad).line(),
	)
	d.row("Shares",
		series("Received", "What tenants' calls took of the pool's last minute, by their dominant part of tokens, requests or slots. 1 is all of the pool.", "percentunit", 12, query(received, "{{tenant}} {{pool}}")).stacked().toTenant(),
		series("Entitled", "What a fluid server would have given of what the pool handed out: each second, by weight, of what all want just then.", "percentunit", 12, query(entitled, "{{tenant}} {{pool}}")).stacked().toTenant(),
		series("Received / entitled", "1 is fair. Below 1 for minutes, while calls wait, is starved. Who was entitled to less than a hundredth of the pool is left out.", "none", 12,
			query(received+` / (`+entitled+` > 0.01)`, "{{tenant}} {{pool}}")).from(bad, .75, good, 1.25, bad).line().toTenant(),
		series("Waits by tier", "95th percentile of the time from a request's arrival at the limits to its admission.", "s", 12,
			query(quantile(.95, "tier", `llmgov_queue_wait_seconds_bucket{@gateway, @pool}`, "$__rate_interval"), "{{tier}}")),
	)
	d.row("Lent and borrowed",
		series("Borrowed", "Tokens a minute beyond what a tenant's weight alone comes to, which others did not ask for.", "short", 8, query(borrowed, "{{tenant}} {{pool}}")).stacked().toTenant(),
		series("Lent", "Tokens a minute of what a tenant's weight comes to, which it did not ask for and others had.", "short", 8, query(lent, "{{tenant}} {{pool}}")).stacked().toTenant(),
		series("Debt", "How far tenants are ahead of their siblings, in tokens: until these have had as much for their weights, they go first.", "short", 8,
			query(`sum by (tenant, pool) (llmgov_debt_tokens{@gateway, @pool, @tenant})`, "{{tenant}} {{pool}}")).toTenant(),
		table("Shares of tenants", "As of now. Received and entitled are parts of the pool's minute.", 10,
			column{"Received", "percentunit", received},
			column{"Entitled", "percentunit", entitled},
			column{"Waiting", "short", `sum by (tenant, pool) (llmgov_queue_depth{@gateway, @pool, @tenant})`},
			column{"Debt", "short", `sum by (tenant, pool) (llmgov_debt_tokens{@gateway, @pool, @tenant})`},
			column{"Borrowed", "short", `sum by (tenant, pool) (increase(llmgov_borrowed_tokens_total{@gateway, @pool, @tenant}[$__range]))`},
			column{"Lent", "short", `sum by (tenant, pool) (increase(llmgov_lent_tokens_total{@gateway, @pool, @tenant}[$__range]))`},
		),
	)
	return *d
}
