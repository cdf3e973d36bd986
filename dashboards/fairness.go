package dashboards

// fairness compares entitlements with usage. docs/api.md explains each figure.
func fairness() Dashboard {
	d := dashboard("fairness", "Fairness", "What tenants were entitled to of each pool, what they received, and what was lent, borrowed and left unused.", tenants())
	const (
		received = `sum by (tenant, pool) (llmgov_share_received_ratio{@gateway, @pool, @tenant})`
		entitled = `sum by (tenant, pool) (llmgov_share_entitled_ratio{@gateway, @pool, @tenant})`
		waiting  = `sum by (tenant, pool) (llmgov_queue_depth{@gateway, @pool, @tenant, pool!=""})`
		ratio    = received + ` / (` + entitled + ` > 0.001)`
		// listed are the rows of the table: tenants with an entitlement or waiting calls.
		listed    = ` and on (tenant, pool) (` + entitled + ` > 0.001 or ` + waiting + ` > 0)`
		misplaced = `sum by (pool) (abs(` + received + ` - ` + entitled + `)) / 2 / sum by (pool) (` + entitled + `)`
		unused    = `60 * sum by (pool) (rate(llmgov_unused_while_waiting_tokens_total{@gateway, @pool}[$__rate_interval])) / max by (pool) (llmgov_pool_tokens_limit{@gateway, @pool})`
		borrowed  = `60 * sum by (tenant, pool) (rate(llmgov_borrowed_tokens_total{@gateway, @pool, @tenant}[$__rate_interval]))`
		lent      = `60 * sum by (tenant, pool) (rate(llmgov_lent_tokens_total{@gateway, @pool, @tenant}[$__rate_interval]))`
		debt      = `sum by (tenant, pool) (llmgov_debt_tokens{@gateway, @pool, @tenant})`
	)
	d.row("Is it fair?",
		stat("Jain's index", "Over received / entitled of all tenants in the last minute, of the pool and gateway where it is worst. 1: all received the same part of their entitlement.", "none", 8,
			query(`min(llmgov_fairness_jain_index{@gateway, @pool})`, "")).from(bad, .8, fair, .95, good).upTo(1),
		stat("Misallocated", "The part of the fullest minute that went to others than those entitled to it, of the pool where it is largest, over all gateways.", "percentunit", 8,
			query(`max(`+misplaced+`)`, "")).from(good, .05, fair, .15, bad),
		stat("Unused while calls waited", "Tokens that a pool could have granted to waiting calls, and did not, as a part of its limit. It should be 0.", "percentunit", 8,
			query(`max(`+unused+`)`, "")).from(good, .005, fair, .02, bad).orElse("no pool has a tpm"),
	)
	d.row("Who gets too little?",
		table("Shares of tenants", "As of now, whoever gets the smallest part of its entitlement first. Received and entitled are parts of the pool's minute; below 100 % for minutes, while calls wait, is starved.", 10,
			column{name: "Received / entitled", unit: "percentunit", expr: ratio, steps: steps(bad, .75, fair, .9, good), ascending: true},
			column{name: "Received", unit: "percentunit", expr: received + listed},
			column{name: "Entitled", unit: "percentunit", expr: entitled + listed},
			column{name: "Waiting", unit: "short", expr: waiting + listed},
			column{name: "Debt", unit: tokens, expr: debt + listed},
			column{name: "Borrowed", unit: tokens, expr: `sum by (tenant, pool) (increase(llmgov_borrowed_tokens_total{@gateway, @pool, @tenant}[$__range]))` + listed},
			column{name: "Lent", unit: tokens, expr: `sum by (tenant, pool) (increase(llmgov_lent_tokens_total{@gateway, @pool, @tenant}[$__range]))` + listed},
		),
		series("Lowest received / entitled", "The five tenants that get the smallest part of their entitlement. 1 is fair. Tenants entitled to less than a hundredth of the pool are left out.", "none", 12,
			query(`bottomk(5, `+received+` / (`+entitled+` > 0.01))`, "{{tenant}} {{pool}}")).from(bad, .75, good).line().rising().toTenant().softMax(1.5),
		series("Highest received / entitled", "The five tenants that get the largest part. Above 1 is borrowed from tenants that do not use theirs.", "none", 12,
			query(`topk(5, `+received+` / (`+entitled+` > 0.01))`, "{{tenant}} {{pool}}")).toTenant().softMax(1.5),
	)
	d.row("Pools",
		series("Jain's index by pool", "The lowest of any gateway.", "none", 8, query(`min by (pool) (llmgov_fairness_jain_index{@gateway, @pool})`, "{{pool}}")).upTo(1).rising(),
		series("Misallocated by pool", "The part of the minute that went to others than those entitled to it, over all gateways.", "percentunit", 8, query(misplaced, "{{pool}}")).from(good, .15, bad).line(),
		series("Unused while calls waited, by pool", "As a part of the limit.", "percentunit", 8, query(unused, "{{pool}}")).from(good, .02, bad).line().orElse("no pool has a tpm"),
		series("Largest deviation by pool", "The largest distance of one tenant's received / entitled from 1, in one gateway. Tenants with tiny entitlements dominate it, so the axis ends at 2.", "percentunit", 12,
			query(`max by (pool) (llmgov_fairness_max_deviation_ratio{@gateway, @pool})`, "{{pool}}")).upTo(2),
		series("Waits by tier", "95th percentile of the time from a request's arrival at the limits to its admission.", "s", 12,
			query(quantile(.95, "tier", `llmgov_queue_wait_seconds_bucket{@gateway, @pool}`, "$__rate_interval"), "{{tier}}")).orElse("nobody waited"),
	)
	d.perPool("Shares of $pool",
		series("Received", "Tenants' usage of the pool's last minute, by their dominant part of tokens, requests or slots: the ten largest. 100 % is the whole pool.", "percentunit", 12,
			query(`topk(10, `+received+`)`, "{{tenant}}")).stacked().toTenant(),
		series("Entitled", "The parts that a fluid server would have given of the pool's usage: each second, by weight, among all tenants with demand at that moment. The ten largest.", "percentunit", 12,
			query(`topk(10, `+entitled+`)`, "{{tenant}}")).stacked().toTenant(),
		series("Waiting by policy", "Calls that rules of the pool's slots keep waiting (interactive_reserve, soft_cap, hold_back): the ten largest. They count in no entitlement, so no alert fires.", "short", 24,
			query(`topk(10, sum by (tenant, rule) (llmgov_queue_kept_out{@gateway, @pool, @tenant}))`, "{{tenant}} {{rule}}")).stacked().orElse("no such rule"),
		series("Borrowed", "Tokens per minute that tenants received beyond their weight, because others did not use theirs: the ten with most.", tokensPerMinute, 8,
			query(`topk(10, `+borrowed+`)`, "{{tenant}}")).stacked().toTenant().orElse("none"),
		series("Lent", "Tokens per minute that tenants left to others: the ten with most.", tokensPerMinute, 8,
			query(`topk(10, `+lent+`)`, "{{tenant}}")).stacked().toTenant().orElse("none"),
		series("Debt", "Tokens by which tenants are ahead of their siblings, which go first until they have caught up by their weights. The ten with most.", tokens, 8,
			query(`topk(10, `+debt+`)`, "{{tenant}}")).toTenant().orElse("none"),
	)
	return *d
}
