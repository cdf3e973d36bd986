package dashboards

// overview is the first dashboard to read: health, usage, refusals and their reasons.
func overview() Dashboard {
	d := dashboard("overview", "Overview", "What all gateways do at the moment: calls, tokens, pools, tenants and upstreams.", tenants())
	d.row("At a glance", glance()...)
	d.row("Alerts",
		alertTable("Firing or pending", "Alerts of llmgov that fire or are about to. docs/alerts.md has a section for each. Empty without the exported rules.", 5))
	d.row("Pools", poolPanels()...)
	d.row("Tenants", tenantPanels()...)
	d.folded("Upstreams", upstreamPanels()...)
	d.folded("Gateways", processPanels()...)
	return *d
}

func glance() []Panel {
	const (
		seen = `count(last_over_time(llmgov_policy_reload_success{@gateway}[1h]))`
		up   = `(count(llmgov_policy_reload_success{@gateway}) or vector(0))`
	)
	return []Panel{
		stat("Calls", "Calls per second that came in, refused ones included.", "reqps", 3,
			query(`sum(rate(llmgov_requests_total{@gateway, @pool, @tenant}[$__rate_interval]))`, "")),
		stat("Tokens", "Tokens per minute of prompts and answers.", tokensPerMinute, 3,
			query(`60 * sum(rate(llmgov_tokens_total{@gateway, @pool, @tenant, kind=~"input|output"}[$__rate_interval]))`, "")),
		stat("Failed", "Share of all calls whose upstream failed, or broke off.", "percentunit", 3, query(partOf(`outcome="failed"`, ""), "")).from(good, .01, fair, .05, bad),
		stat("Refused", "Share of all calls that llmgov refused. Limits are there to refuse calls; the reasons are below.", "percentunit", 3,
			query(partOf(`outcome="refused"`, ""), "")).from(good, .1, fair, .5, bad),
		stat("Running, waiting", "Calls in flight, streams included, and calls in a queue, for the pool or for a limit of their own.", "short", 3,
			query(`sum(llmgov_inflight_requests{@gateway, @pool, @tenant})`, "running"), query(`sum(llmgov_queue_depth{@gateway, @pool, @tenant})`, "waiting")),
		stat("Gateways down", "Gateways that were scraped within the last hour and do not answer now.", "none", 3,
			query(seen+` - `+up, "down"), query(up, "up"), query(`sum(llmgov_draining{@gateway})`, "draining")).
			from(good, 1.0, bad).colored("up", neutral).colored("draining", neutral),
		stat("Degraded pools", "Pools that are cut off from the store in some gateway, for which on_store_loss decides.", "none", 3,
			query(`count(max by (pool) (llmgov_degraded{@gateway, @pool}) == 1) or vector(0)`, "")).from(good, 1.0, bad),
		stat("Policy files", "Invalid: the files have problems, and the previous policy stays in force. The log and llmgov check list them.", "none", 3,
			query(`min(llmgov_policy_reload_success{@gateway})`, "")).from(bad, 1.0, good).mapped(onOff("invalid", bad, "valid", good)),
	}
}

func poolPanels() []Panel {
	return []Panel{
		series("Utilisation", "The use of each pool's limits over the last minute, whatever they limit: tokens, requests or slots. A full pool is no fault; unused tokens while calls wait are.", "percentunit", 12,
			query(axes("pool", `{@gateway, @pool}`), "{{pool}} {{axis}}")).from(good, .9, fair, 1.0, bad).line(),
		series("Tokens and limit", "Tokens of the last 60 s in all gateways, held ones included, and the limit less headroom.", tokens, 12,
			query(`sum by (pool) (llmgov_pool_tokens_rolling{@gateway, @pool})`, "{{pool}}"),
			query(`max by (pool) (llmgov_pool_tokens_limit{@gateway, @pool})`, "{{pool}} limit")).orElse("no pool has a tpm"),
		series("Calls by outcome", "ok: the upstream's answer was passed on. refused: by llmgov. cancelled: the client left. failed: the upstream failed, or broke off.", "reqps", 12,
			query(`sum by (outcome) (rate(llmgov_requests_total{@gateway, @pool, @tenant}[$__rate_interval]))`, "{{outcome}}")).stacked().named(),
		series("Refusals by reason", "requests, tokens, concurrency: a limit. share: others wait too, and come first by weight. budget: spent. All others are in the table of refusals of docs/api.md.", "reqps", 12,
			query(`sum by (reason) (rate(llmgov_requests_total{@gateway, @pool, @tenant, outcome="refused"}[$__rate_interval])) > 0`, "{{reason}}")).stacked().orElse("none"),
		series("In flight", "Calls that run in each pool, and the limit if there is one. Gateways are scraped one after the other, so the sum may be above the limit by the calls that moved meanwhile.", "short", 8,
			query(`sum by (pool) (llmgov_inflight_requests{@gateway, @pool, @tenant})`, "{{pool}}"),
			query(`max by (pool) (llmgov_concurrency_limit{@gateway, @pool})`, "{{pool}} limit")),
		series("Queue depth", "Calls that wait for each pool. own limits: calls that wait for a limit of their own tenant.", "short", 8,
			query(ownLimits(`sum by (pool) (llmgov_queue_depth{@gateway, @pool, @tenant})`), "{{pool}}")),
		series("Rate factor", "The part of the rate in use: less than 1 while upstreams are missing or have asked for a pause, 0 while all of a pool's have.", "percentunit", 8,
			query(`min by (pool) (llmgov_pool_rate_ratio{@gateway, @pool}) and on (pool) llmgov_limit{@gateway, @pool, tenant="", axis=~"tokens|requests"}`, "{{pool}}")).upTo(1).orElse("no pool has a rate"),
	}
}

func tenantPanels() []Panel {
	const limits = `max by (tenant, pool, axis) (llmgov_used{@gateway, @pool, @tenant, tenant!=""} / llmgov_limit{@gateway, @pool, @tenant, tenant!=""})`
	return []Panel{
		table("Tenants in pools", "All tenants, by the tokens that they took in the last five minutes. A click on a tenant leads to its own page.", 10,
			column{name: "Tokens", unit: tokensPerMinute, expr: `60 * sum by (tenant, pool) (rate(llmgov_tokens_total{@gateway, @pool, @tenant, pool!="", kind=~"input|output"}[5m]))`},
			column{name: "Calls", unit: "reqps", expr: `sum by (tenant, pool) (rate(llmgov_requests_total{@gateway, @pool, @tenant, pool!=""}[5m]))`},
			column{name: "Received", unit: "percentunit", expr: `sum by (tenant, pool) (llmgov_share_received_ratio{@gateway, @pool, @tenant})`},
			column{name: "Entitled", unit: "percentunit", expr: `sum by (tenant, pool) (llmgov_share_entitled_ratio{@gateway, @pool, @tenant})`},
			column{name: "Running", unit: "short", expr: `sum by (tenant, pool) (llmgov_inflight_requests{@gateway, @pool, @tenant, pool!=""})`},
			column{name: "Waiting", unit: "short", expr: `sum by (tenant, pool) (llmgov_queue_depth{@gateway, @pool, @tenant, pool!=""})`},
		),
		series("Tokens by tenant", "Tokens per minute that calls took, of the ten tenants with most.", tokensPerMinute, 12,
			query(`topk(10, 60 * sum by (tenant) (rate(llmgov_tokens_total{@gateway, @pool, @tenant, kind=~"input|output"}[$__rate_interval])))`, "{{tenant}}")).toTenant(),
		series("Refusals by tenant", "Refused calls per second, of the ten tenants with most. unknown key: calls of no tenant.", "reqps", 12,
			query(`label_replace(topk(10, sum by (tenant) (rate(llmgov_requests_total{@gateway, @pool, @tenant, outcome="refused"}[$__rate_interval])) > 0), "tenant", "unknown key", "tenant", "^$")`, "{{tenant}}")).toTenant().orElse("none"),
		bars("Fullest limits", "Used parts of tenants' own limits now, the ten fullest, and of each pool's limits.", "percentunit", 12,
			query(`sort_desc(topk(10, `+limits+` or label_replace(`+axes("pool", `{@gateway, @pool}`)+`, "tenant", "pool", "", "")))`, "{{tenant}} {{pool}} {{axis}}")).
			from(good, .8, fair, 1.0, bad).upTo(1).orElse("no limits"),
		bars("Fullest budgets", "Used parts of budgets, tokens held included, the ten fullest. Without a tenant it is a pool's.", "percentunit", 12,
			query(`sort_desc(topk(10, max by (tenant, per) (llmgov_budget_used_ratio{@gateway, @tenant})))`, "{{tenant}} per {{per}}")).from(good, .8, fair, 1.0, bad).upTo(1).orElse("no budgets"),
	}
}

func upstreamPanels() []Panel {
	return []Panel{
		timeline("State", "down: it fails and is left out, or the next call probes it.", 12, onOff("down", bad, "up", good),
			query(`min by (pool, upstream) (llmgov_upstream_up{@gateway, @pool})`, "{{pool}} {{upstream}}")),
		timeline("Pauses", "paused: it has asked for a pause (429 with Retry-After), and gets no calls until that is over.", 12, onOff("ready", good, "paused", fair),
			query(`max by (pool, upstream) (llmgov_upstream_busy{@gateway, @pool})`, "{{pool}} {{upstream}}")),
		series("Tries by outcome", "The outcome of each call that was sent to an upstream. busy, failed and silent ones go to another upstream, if there is one.", "reqps", 12,
			query(`sum by (upstream, outcome) (rate(llmgov_upstream_tries_total{@gateway, @pool}[$__rate_interval])) > 0`, "{{upstream}} {{outcome}}")).stacked().named(),
		series("Errors by class", "Reasons of failed upstreams: connect, timeout, broken, truncated, event, idle, draining, or the status. Also of tries after which another upstream had an answer.", "reqps", 12,
			query(`sum by (pool, class) (rate(llmgov_upstream_errors_total{@gateway, @pool}[$__rate_interval])) > 0`, "{{pool}} {{class}}")).stacked().orElse("none"),
		series("Tokens by upstream", "Tokens per second of calls that ended, of upstreams that have limits of their own: what spills over from the first of them to the next.", "short", 12,
			query(`sum by (pool, upstream) (rate(llmgov_upstream_tokens_total{@gateway, @pool}[$__rate_interval]))`, "{{pool}} {{upstream}}")).stacked().named().orElse("no limits"),
		series("Used by others", "Tokens of the last minute that others used of an upstream with the same account, as its answers tell.", "short", 12,
			query(`max by (pool, upstream, axis) (llmgov_upstream_foreign_tokens{@gateway, @pool})`, "{{pool}} {{upstream}} {{axis}}")).orElse("no limits declared"),
		series("Own limits in use", "Used parts of the limits that upstreams have of their own.", "percentunit", 12,
			query(`max by (pool, upstream, axis) (llmgov_upstream_used{@gateway, @pool}) / max by (pool, upstream, axis) (llmgov_upstream_limit{@gateway, @pool})`, "{{pool}} {{upstream}} {{axis}}")).orElse("no limits"),
		timeline("Servers' own metrics", "Of upstreams with engine: whether their metrics were read in the last seconds. If not, adaptive limits go by latency alone.", 12, onOff("not read", fair, "read", good),
			query(`min by (upstream) (llmgov_engine_up{@gateway})`, "{{upstream}}")).orElse("no engine"),
		series("Calls in servers", "Calls that run and that wait in upstreams with engine, as these tell it: of all their callers.", "short", 12,
			query(`max by (upstream) (llmgov_engine_running{@gateway})`, "{{upstream}} running"),
			query(`max by (upstream) (llmgov_engine_waiting{@gateway})`, "{{upstream}} waiting")).orElse("no engine"),
		series("KV cache of servers", "The part in use of the memory for contexts, as upstreams with engine tell it.", "percentunit", 12,
			query(`max by (upstream) (llmgov_engine_kv_cache_use{@gateway})`, "{{upstream}}")).upTo(1).orElse("no engine"),
		series("Lost lines of the decision log", "Lines per second that could not be written; 0 as well without a log. Calls whose line is lost cannot be replayed.", "short", 12,
			query(`sum(rate(llmgov_decision_log_lost_total{@gateway}[$__rate_interval])) or vector(0)`, "lost")),
	}
}

func processPanels() []Panel {
	return []Panel{
		series("Memory for bodies", "Request bodies that are read, wait, or are sent on. When body_memory is full, calls with large bodies wait or are refused.", "bytes", 12,
			query(`sum by (instance) (llmgov_body_memory_bytes{@gateway})`, "{{instance}}")),
		series("Connections", "Connections of clients; of these, those without a valid key; and the latter that are closed for newer ones, per second.", "short", 12,
			query(`sum(llmgov_connections{@gateway})`, "all"),
			query(`sum(llmgov_connections_without_key{@gateway})`, "without a key"),
			query(`sum(rate(llmgov_connections_closed_total{@gateway}[$__rate_interval]))`, "closed per second")),
		series("CPU", "Cores that each gateway uses.", "short", 8, query(`sum by (instance) (rate(process_cpu_seconds_total{@gateway}[$__rate_interval]))`, "{{instance}}")),
		series("Memory", "Resident memory of each gateway.", "bytes", 8, query(`sum by (instance) (process_resident_memory_bytes{@gateway})`, "{{instance}}")),
		series("Goroutines", "A call has three or four. They fall back when calls end.", "short", 8, query(`sum by (instance) (go_goroutines{@gateway})`, "{{instance}}")),
	}
}

// ownLimits names the pool of calls that wait for a limit of their own tenant. Grafana calls a
// series without labels "Value".
func ownLimits(expr string) string {
	return `label_replace(` + expr + `, "pool", "own limits", "pool", "^$")`
}

// partOf is the part of all calls that match, by labels or in all; 0 if none does.
func partOf(which, by string) string {
	all := `sum` + by + ` (rate(llmgov_requests_total{@gateway, @pool, @tenant}[$__rate_interval]))`
	some := `sum` + by + ` (rate(llmgov_requests_total{@gateway, @pool, @tenant, ` + which + `}[$__rate_interval]))`
	return `(` + some + ` or 0 * ` + all + `) / ` + all
}
