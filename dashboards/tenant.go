package dashboards

import (
	"fmt"
	"strings"
)

// tenant is one tenant's own page: shares, usage, limits and refusals.
func tenant() Dashboard {
	d := dashboard("tenant", "Tenant", "One tenant: its calls, shares, limits, budgets and teams.", oneTenant())
	const teams = `tenant=~"$one/.+"`
	d.row("$one",
		stat("Calls", "Calls per second of the tenant and its teams, refused ones included.", "reqps", 4, query(`sum(rate(llmgov_requests_total{@gateway, @pool, @family}[$__rate_interval]))`, "")),
		stat("Tokens", "Tokens per minute of the tenant and its teams.", tokensPerMinute, 4, query(`60 * sum(rate(llmgov_tokens_total{@gateway, @pool, @family, kind=~"input|output"}[$__rate_interval]))`, "")),
		stat("Refused", "Share of its and its teams' calls that llmgov refused.", "percentunit", 4, query(familyPart(`outcome="refused"`), "")).from(good, .1, fair, .5, bad),
		stat("Failed", "Share of its and its teams' calls whose upstream failed, or broke off.", "percentunit", 4, query(familyPart(`outcome="failed"`), "")).from(good, .01, fair, .05, bad),
		stat("Running", "Calls in flight of the tenant and its teams, streams included.", "short", 4, query(`sum(llmgov_inflight_requests{@gateway, @pool, @family})`, "")),
		stat("Waiting", "Calls in a queue, of the tenant and its teams, for a pool or for a limit of their own.", "short", 4, query(`sum(llmgov_queue_depth{@gateway, @pool, @family})`, "")),
	)
	d.row("Outcomes",
		series("Calls by outcome", "Its own calls, without those of teams, which are below.", "reqps", 12, query(`sum by (outcome) (rate(llmgov_requests_total{@gateway, @pool, @one}[$__rate_interval]))`, "{{outcome}}")).stacked().named(),
		series("Refusals by reason", "requests, tokens, concurrency: a limit. share: others wait too. budget: spent. llmgov explain shows which limit decides.", "reqps", 12,
			query(`sum by (pool, reason) (rate(llmgov_requests_total{@gateway, @pool, @one, outcome="refused"}[$__rate_interval]))`, "{{reason}} {{pool}}")).stacked().orElse("none"),
		series("Tokens by kind", "Tokens per minute. held: the most that calls could use, at admission; refunded: the part they did not use. cached_input is part of input, reasoning of output.", tokensPerMinute, 12,
			query(`60 * sum by (kind) (rate(llmgov_tokens_total{@gateway, @pool, @one}[$__rate_interval]))`, "{{kind}}")),
		series("Waits of its tier", "Percentiles of the time to admission, of all tenants of the same tier in the pools that this one uses.", "s", 12,
			query(tierWait(.5), "median {{pool}}"), query(tierWait(.95), "95 % {{pool}}")),
	)
	d.row("Shares of pools",
		series("Received and entitled", "The parts of the pool's last minute that it received, and was entitled to.", "percentunit", 12,
			query(`sum by (pool) (llmgov_share_received_ratio{@gateway, @pool, @one})`, "received {{pool}}"), query(`sum by (pool) (llmgov_share_entitled_ratio{@gateway, @pool, @one})`, "entitled {{pool}}")),
		series("Borrowed, lent, debt", "Tokens per minute that it received beyond its weight, or left to others; and the tokens by which it is ahead of its siblings.", tokens, 12,
			query(`60 * sum by (pool) (rate(llmgov_borrowed_tokens_total{@gateway, @pool, @one}[$__rate_interval]))`, "borrowed {{pool}}"),
			query(`60 * sum by (pool) (rate(llmgov_lent_tokens_total{@gateway, @pool, @one}[$__rate_interval]))`, "lent {{pool}}"),
			query(`sum by (pool) (llmgov_debt_tokens{@gateway, @pool, @one})`, "debt {{pool}}")),
	)
	d.row("Limits and budgets",
		series("Own limits", "Used parts of its own limits, in the gateway with the highest. Without a pool: over all pools.", "percentunit", 8,
			query(`max by (pool, axis) (llmgov_used{@gateway, @pool, @one} / llmgov_limit{@gateway, @pool, @one})`, "{{axis}} {{pool}}")).from(good, .8, fair, 1.0, bad).line().orElse("no limits of its own"),
		series("Budgets", "Used part of each period's fullest budget, tokens held included.", "percentunit", 8,
			query(`max by (per) (llmgov_budget_used_ratio{@gateway, @one})`, "per {{per}}")).from(good, .8, fair, 1.0, bad).line().orElse("no budgets"),
		series("Refused without shadow", "Calls that were admitted only because the tenant is in shadow.", "reqps", 8,
			query(`sum by (pool, reason) (rate(llmgov_shadow_refused_total{@gateway, @pool, @one}[$__rate_interval]))`, "{{reason}} {{pool}}")).stacked().orElse("not in shadow, or none"),
	)
	d.row("Teams",
		series("Tokens by team", "Tokens per minute of its teams. They are in the tiles above, not in the charts. Click a team for its own board.", tokensPerMinute, 12,
			query(`60 * sum by (tenant) (rate(llmgov_tokens_total{@gateway, @pool, `+teams+`, kind=~"input|output"}[$__rate_interval]))`, "{{tenant}}")).stacked().toTenant().orElse("no teams"),
		series("Refusals by team", "Refused calls per second of its teams.", "reqps", 12,
			query(`sum by (tenant, reason) (rate(llmgov_requests_total{@gateway, @pool, `+teams+`, outcome="refused"}[$__rate_interval]))`, "{{tenant}} {{reason}}")).stacked().toTenant().orElse("none"),
	)
	return *d
}

// familyPart is the part of the calls of a tenant and its teams that match.
func familyPart(which string) string {
	return strings.ReplaceAll(partOf(which, ""), "@tenant", "@family")
}

// tierWait is a percentile of the waits in the tenant's tier.
func tierWait(q float64) string {
	return fmt.Sprintf(`histogram_quantile(%g, sum by (pool, le) (rate(llmgov_queue_wait_seconds_bucket{@gateway, @pool}[$__rate_interval])
		and on (job, instance, tier, pool) llmgov_requests_total{@gateway, @pool, @one}))`, q)
}
