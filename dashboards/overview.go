package dashboards

// overview is where to look first: is it up, how full is it, who is refused, and why.
func overview() Dashboard {
	d := dashboard("overview", "Overview", "What all gateways do at the moment: calls, tokens, pools, tenants and upstreams.", tenants())
	d.row("At a glance",
		stat("Calls", "Calls a second that came in, refused ones included.", "reqps", 3, query(`sum(rate(llmgov_requests_total{@gateway, @pool, @tenant}[$__rate_interval]))`, "")),
		stat("Tokens", "Tokens a minute that calls really took, of prompts and answers.", "short", 3, query(`60 * sum(rate(llmgov_tokens_total{@gateway, @pool, @tenant, kind=~"input|output"}[$__rate_interval]))`, "")),
		stat("Failed", "Part of all calls whose upstream failed, or broke off.", "percentunit", 3, query(partOf(`outcome="failed"`, ""), "")).from(good, .01, fair, .05, bad),
		stat("Refused", "Part of all calls that llmgov refused. Some are what limits are for; see by which reason below.", "percentunit", 3, query(partOf(`outcome="refused"`, ""), "")).from(good, .1, fair, .5, bad),
		stat("Running", "Calls that run, streams included.", "short", 3, query(`sum(llmgov_inflight_requests{@gateway, @pool, @tenant})`, "")),
		stat("Waiting", "Calls that wait in line, for the pool or for a limit of their own.", "short", 3, query(`sum(llmgov_queue_depth{@gateway, @pool, @tenant})`, "")),
		stat("Gateways", "Processes that were scraped, and those among them that drain.", "none", 3,
			query(`count(llmgov_policy_reload_success{@gateway})`, "up"), query(`sum(llmgov_draining{@gateway})`, "draining")),
		stat("Policy files", "Bad: files were changed to what is not understood, and the last good policy stays in force. The log, and llmgov check, say where.", "none", 3,
			query(`min(llmgov_policy_reload_success{@gateway})`, "")).from(bad, 1.0, good).mapped(onOff("bad", bad, "good", good)),
	)
	d.row("Pools",
		series("Use of the minute", "Tokens that count against each pool's limit now, as a part of it. Full is not wrong: it is wrong when calls wait and it is not.", "percentunit", 12,
			query(poolUsed("pool", `{@gateway, @pool}`), "{{pool}}")).from(good, .9, fair, 1.0, bad).line(),
		series("Tokens and limit", "Tokens of the last 60 s, held ones included, in all gateways, and the limit that each of them knows, headroom taken off.", "short", 12,
			query(`sum by (pool) (llmgov_pool_tokens_rolling{@gateway, @pool})`, "{{pool}}"), query(`max by (pool) (llmgov_pool_tokens_limit{@gateway, @pool})`, "{{pool}} limit")),
		series("Calls by outcome", "What became of calls. ok: the upstream's answer was passed on. refused: by llmgov. cancelled: the client went away. failed: the upstream failed, or broke off.", "reqps", 12,
			query(`sum by (outcome) (rate(llmgov_requests_total{@gateway, @pool, @tenant}[$__rate_interval]))`, "{{outcome}}")).stacked(),
		series("Refusals by reason", "requests, tokens, concurrency: a limit. share: others wait too, and it was not this one's turn. budget: spent. All others are in the table of refusals of docs/api.md.", "reqps", 12,
			query(`sum by (reason) (rate(llmgov_requests_total{@gateway, @pool, @tenant, outcome="refused"}[$__rate_interval]))`, "{{reason}}")).stacked(),
		series("Calls at once", "Calls that run in each pool, and how many may, where that is limited.", "short", 8,
			query(`sum by (pool) (llmgov_inflight_requests{@gateway, @pool, @tenant})`, "{{pool}}"), query(`max by (pool) (llmgov_concurrency_limit{@gateway, @pool})`, "{{pool}} limit")),
		series("Calls in line", "Waiting for each pool, and without one those over a limit of their own tenant.", "short", 8,
			query(`sum by (pool) (llmgov_queue_depth{@gateway, @pool, @tenant})`, "{{pool}}")),
		series("Part of the rate that is handed out", "Less than 1 while upstreams are missing or have asked for a pause, 0 while all of a pool's have.", "percentunit", 8,
			query(`min by (pool) (llmgov_pool_rate_ratio{@gateway, @pool})`, "{{pool}}")).upTo(1),
	)
	d.row("Tenants",
		series("Tokens by tenant", "Tokens a minute that calls really took, of the ten tenants with most.", "short", 12,
			query(`topk(10, 60 * sum by (tenant) (rate(llmgov_tokens_total{@gateway, @pool, @tenant, kind=~"input|output"}[$__rate_interval])))`, "{{tenant}}")).toTenant(),
		series("Refusals by tenant", "Refused calls a second, of the ten tenants with most. Without a tenant: the key was not known.", "reqps", 12,
			query(`topk(10, sum by (tenant) (rate(llmgov_requests_total{@gateway, @pool, @tenant, outcome="refused"}[$__rate_interval])))`, "{{tenant}}")).toTenant(),
		bars("Fullest limits", "How much of their own limits tenants use now, the ten fullest. Without a tenant it is a pool's.", "percentunit", 12,
			query(`topk(10, max by (tenant, pool, axis) (llmgov_used{@gateway, @pool, @tenant} / llmgov_limit{@gateway, @pool, @tenant}))`, "{{tenant}} {{pool}} {{axis}}")).from(good, .8, fair, 1.0, bad).upTo(1),
		bars("Fullest budgets", "How much of budgets is used, held included, the ten fullest. Without a tenant it is a pool's.", "percentunit", 12,
			query(`topk(10, max by (tenant, per) (llmgov_budget_used_ratio{@gateway, @tenant}))`, "{{tenant}} a {{per}}")).from(good, .8, fair, 1.0, bad).upTo(1).anyway("no budgets"),
		table("Tenants in pools", "All tenants, by the tokens that they took in the last five minutes. A click on a tenant leads to its own page.", 10,
			column{"Tokens a minute", "short", `60 * sum by (tenant, pool) (rate(llmgov_tokens_total{@gateway, @pool, @tenant, kind=~"input|output"}[5m]))`},
			column{"Calls a second", "reqps", `sum by (tenant, pool) (rate(llmgov_requests_total{@gateway, @pool, @tenant}[5m]))`},
			column{"Received", "percentunit", `sum by (tenant, pool) (llmgov_share_received_ratio{@gateway, @pool, @tenant})`},
			column{"Entitled", "percentunit", `sum by (tenant, pool) (llmgov_share_entitled_ratio{@gateway, @pool, @tenant})`},
			column{"Running", "short", `sum by (tenant, pool) (llmgov_inflight_requests{@gateway, @pool, @tenant})`},
			column{"Waiting", "short", `sum by (tenant, pool) (llmgov_queue_depth{@gateway, @pool, @tenant})`},
		),
	)
	d.row("Upstreams",
		timeline("State", "down: it fails and is left out, or the next call tells whether it works again.", 12, onOff("down", bad, "up", good),
			query(`min by (pool, upstream) (llmgov_upstream_up{@gateway, @pool})`, "{{pool}} {{upstream}}")).from(bad, 1.0, good),
		timeline("Pauses", "paused: it has asked for a pause (a 429 with a time), and gets no calls until that is over.", 12, onOff("ready", good, "paused", fair),
			query(`max by (pool, upstream) (llmgov_upstream_busy{@gateway, @pool})`, "{{pool}} {{upstream}}")).from(good, 1.0, fair),
		series("Tries by outcome", "What came of each call that was sent to an upstream. busy, failed and silent ones go to another upstream, if there is one.", "reqps", 12,
			query(`sum by (upstream, outcome) (rate(llmgov_upstream_tries_total{@gateway, @pool}[$__rate_interval]))`, "{{upstream}} {{outcome}}")).stacked(),
		series("Errors by class", "Why upstreams failed: connect, timeout, broken, truncated, event, idle, draining, or the status. Also of tries after which another upstream had an answer.", "reqps", 12,
			query(`sum by (pool, class) (rate(llmgov_upstream_errors_total{@gateway, @pool}[$__rate_interval]))`, "{{pool}} {{class}}")).stacked().anyway("none"),
		series("Lost lines of the decision log", "Lines a second that could not be written; 0 as well where there is no log. What is lost cannot be planned with.", "short", 12,
			query(`sum(rate(llmgov_decision_log_lost_total{@gateway}[$__rate_interval])) or vector(0)`, "lost")),
	)
	d.row("Limits of a gateway",
		series("Memory for bodies", "Request bodies that are read, wait, or are sent on. When body_memory is full, calls with large bodies wait or are refused.", "bytes", 12,
			query(`sum by (instance) (llmgov_body_memory_bytes{@gateway})`, "{{instance}}")),
		series("Connections", "Connections of clients; of these, those that have shown no valid key; and how many of the latter are closed for newer ones, a second.", "short", 12,
			query(`sum(llmgov_connections{@gateway})`, "all"),
			query(`sum(llmgov_connections_without_key{@gateway})`, "without a key"),
			query(`sum(rate(llmgov_connections_closed_total{@gateway}[$__rate_interval]))`, "closed a second")),
	)
	return *d
}

// partOf is which part of calls some are, by labels or in all; 0 where there are none of them.
func partOf(which, by string) string {
	all := `sum` + by + ` (rate(llmgov_requests_total{@gateway, @pool, @tenant}[$__rate_interval]))`
	some := `sum` + by + ` (rate(llmgov_requests_total{@gateway, @pool, @tenant, ` + which + `}[$__rate_interval]))`
	return `(` + some + ` or 0 * ` + all + `) / ` + all
}
