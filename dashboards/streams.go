package dashboards

// streams shows times, tokens, estimates and ends of answers. It has no selector of tenants,
// because times and estimates are kept by pool.
func streams() Dashboard {
	d := dashboard("streams", "Streams & tokens", "How fast answers come, how they end, what they take, and how well that was foreseen.")
	const (
		interval   = "$__rate_interval"
		firstToken = `llmgov_time_to_first_token_seconds_bucket{@gateway, @pool}`
		duration   = `llmgov_request_duration_seconds_bucket{@gateway, @pool}`
		wait       = `llmgov_queue_wait_seconds_bucket{@gateway, @pool}`
		estimate   = `llmgov_estimate_error_ratio_bucket{@gateway, @pool}`
		overhead   = `llmgov_overhead_seconds_bucket{@gateway}`
	)
	d.row("Times",
		heatmap("Time to the first token", "Streams, from admission to the first token.", "s", 12, firstToken),
		series("Time to the first token by pool", "Median and 95th percentile.", "s", 12,
			query(quantile(.5, "pool", firstToken, interval), "{{pool}} median"), query(quantile(.95, "pool", firstToken, interval), "{{pool}} 95 %")).from(good, 10.0, bad).line(),
		series("Duration by pool", "From admission to the end of the answer, plain ones included: median and 95th percentile.", "s", 8,
			query(quantile(.5, "pool", duration, interval), "{{pool}} median"), query(quantile(.95, "pool", duration, interval), "{{pool}} 95 %")),
		series("Wait by tier", "From arrival at the limits to admission, of calls that were admitted: median and 95th percentile.", "s", 8,
			query(quantile(.5, "tier", wait, interval), "{{tier}} median"), query(quantile(.95, "tier", wait, interval), "{{tier}} 95 %")),
		series("Overhead", "Time that llmgov itself adds before the upstream sees a request, without waiting.", "s", 8,
			query(quantile(.5, "", overhead, interval), "median"), query(quantile(.99, "", overhead, interval), "99 %")),
	)
	d.row("Streams",
		series("Leases by state", "Calls that wait, that run without a byte of the answer, and that stream.", "short", 8,
			query(`sum by (state) (llmgov_leases{@gateway, @pool})`, "{{state}}")).stacked(),
		series("Kept places (tickets)", "Refused calls with a time to come back. waiting: that time has not come. due: they may come, and are served first.", "short", 8,
			query(`sum by (state) (llmgov_tickets{@gateway, @pool})`, "{{state}}")).stacked(),
		series("Abnormal ends", "Calls per second whose client left, whole answers whose usage could not be read, and leases that were not ended in time.", "reqps", 8,
			query(`sum by (pool) (rate(llmgov_client_cancelled_total{@gateway, @pool}[$__rate_interval]))`, "{{pool}} cancelled"),
			query(`sum by (pool) (rate(llmgov_usage_unread_total{@gateway, @pool}[$__rate_interval]))`, "{{pool}} without usage"),
			query(`sum by (instance) (rate(llmgov_lease_expired_total{@gateway}[$__rate_interval]))`, "expired in {{instance}}")),
	)
	d.row("Tokens",
		series("Tokens by kind", "Tokens per minute. cached_input is part of input, reasoning of output.", tokensPerMinute, 12,
			query(`60 * sum by (kind) (rate(llmgov_tokens_total{@gateway, @pool, kind=~"input|cached_input|output|reasoning"}[$__rate_interval]))`, "{{kind}}")),
		series("Held and refunded", "Tokens per minute that calls held at admission, that they gave back, and that they used.", tokensPerMinute, 12,
			query(`60 * sum by (kind) (rate(llmgov_tokens_total{@gateway, @pool, kind=~"held|refunded"}[$__rate_interval]))`, "{{kind}}"),
			query(`60 * sum(rate(llmgov_tokens_total{@gateway, @pool, kind=~"input|output"}[$__rate_interval]))`, "taken")),
		series("Cached input", "The part of the prompts' tokens that came from the provider's cache.", "percentunit", 8,
			query(`sum by (pool) (rate(llmgov_tokens_total{@gateway, @pool, kind="cached_input"}[$__rate_interval])) / sum by (pool) (rate(llmgov_tokens_total{@gateway, @pool, kind="input"}[$__rate_interval]))`, "{{pool}}")).upTo(1).orElse("nothing was cached"),
		series("Estimates by pool", "Tokens held divided by tokens taken: median and 95th percentile. Much above 1, calls hold more than they use, and limits are full before they are used.", "none", 8,
			query(quantile(.5, "pool", estimate, interval), "{{pool}} median"), query(quantile(.95, "pool", estimate, interval), "{{pool}} 95 %")).from(good, 4.0, fair).line(),
		heatmap("Estimates", "Tokens held divided by tokens taken, of calls whose usage was reported.", "none", 8, estimate),
	)
	d.row("Spend",
		series("Dollars by tenant", "Dollars an hour of calls of models that have prices, of the ten tenants that spend most.", "currencyUSD", 8,
			query(`topk(10, 3600 * sum by (tenant) (rate(llmgov_spend_usd_total{@gateway, @pool}[$__rate_interval])))`, "{{tenant}}")).stacked().toTenant().orElse("no prices"),
		series("Dollars by model", "Dollars an hour. Models that only a pattern names are counted as the pattern.", "currencyUSD", 8,
			query(`3600 * sum by (model) (rate(llmgov_spend_usd_total{@gateway, @pool}[$__rate_interval]))`, "{{model}}")).stacked().orElse("no prices"),
		series("Estimated part", "The part of the dollars whose tokens the upstream did not report.", "percentunit", 8,
			query(`sum by (pool) (rate(llmgov_spend_estimated_usd_total{@gateway, @pool}[$__rate_interval])) / sum by (pool) (rate(llmgov_spend_usd_total{@gateway, @pool}[$__rate_interval]))`, "{{pool}}")).upTo(1).orElse("all was reported"),
	)
	return *d
}
