package dashboards

// federation shows the sharing of limits between gateways, and the failure modes without the store.
func federation() Dashboard {
	region := values("region", "Region", `label_values(llmgov_region_share_ratio{@gateway}, region)`)
	d := dashboard("federation", "Federation", "How gateways share the limits of pools by way of a store. Empty with store: memory.", region)
	const degraded = `max by (pool, mode) (llmgov_degraded{@gateway, @pool})`
	d.row("At a glance",
		stat("Store", "lost: the last beat of some pool was not answered in some gateway, or its state_dir cannot be written.", "none", 6,
			query(`min(llmgov_store_up{@gateway})`, "")).from(bad, 1.0, good).mapped(onOff("lost", bad, "up", good)).orElse("none"),
		stat("Degraded pools", "Pools without a grant in some gateway, for which on_store_loss decides.", "none", 6,
			query(`count(max by (pool) (llmgov_degraded{@gateway, @pool}) == 1) or vector(0)`, "")).from(good, 1.0, bad),
		stat("Store latency", "99th percentile of a store's answer to a beat. Above a quarter of a second grants come late, above a second not at all. No call waits for it.", "s", 6,
			query(quantile(.99, "", `llmgov_store_latency_seconds_bucket{@gateway, op="beat"}`, "$__rate_interval"), "")).from(good, .25, fair, 1.0, bad).orElse("no shared store"),
		stat("Round trips", "Requests per second to the store, by all gateways.", "ops", 6, query(`sum(rate(llmgov_store_round_trips_total{@gateway}[$__rate_interval]))`, "")).orElse("no shared store"),
	)
	d.row("Who uses the limit",
		series("Utilisation", "Tokens of the last 60 s in all gateways, as a part of the limit that they share.", "percentunit", 12,
			query(poolUsed("pool", `{@gateway, @pool}`), "{{pool}}")).from(good, .9, fair, 1.0, bad).line(),
		series("By region", "Each region's part of the tokens that all gateways used of a pool in the last minute.", "percentunit", 12,
			query(`max by (pool, region) (llmgov_region_share_ratio{@gateway, @pool, @region})`, "{{pool}} {{region}}")),
		series("By gateway", "Tokens of the last 60 s in each gateway, held ones included.", tokens, 12,
			query(`sum by (instance, pool) (llmgov_pool_tokens_rolling{@gateway, @pool})`, "{{instance}} {{pool}}")).stacked(),
		series("Grants", "Tokens that each gateway may still give to calls under the grant in force. 0 while calls wait: others have it, or the store is lost.", tokens, 12,
			query(`sum by (instance, pool) (llmgov_grant_tokens{@gateway, @pool})`, "{{instance}} {{pool}}")),
	)
	d.row("The store",
		timeline("Store as seen by each gateway", "lost: the last beat of some pool was not answered, or state_dir cannot be written.", 12, onOff("lost", bad, "up", good),
			query(`min by (instance) (llmgov_store_up{@gateway})`, "{{instance}}")).orElse("no shared store"),
		timeline("Failure modes in force", "closed: no calls are admitted. open: the whole limit in each gateway. local: the part that is withheld. learning: the store is new, and grants nothing yet.", 12,
			onOff("no", good, "in force", bad), query(degraded, "{{pool}} {{mode}}")).orElse("no pool shares a limit"),
		series("Latency by operation", "Median and 99th percentile. beat: a report and a grant. look: a read of the others' reports.", "s", 8,
			query(quantile(.5, "op", `llmgov_store_latency_seconds_bucket{@gateway}`, "$__rate_interval"), "{{op}} median"),
			query(quantile(.99, "op", `llmgov_store_latency_seconds_bucket{@gateway}`, "$__rate_interval"), "{{op}} 99 %")).from(good, .25, fair, 1.0, bad).line().orElse("no shared store"),
		series("Round trips by gateway", "Requests per second of each gateway to the store.", "ops", 8,
			query(`sum by (instance) (rate(llmgov_store_round_trips_total{@gateway}[$__rate_interval]))`, "{{instance}}")),
		series("Refused without a grant", "Calls per second that were refused because no grant is in force (store_lost), or because state_dir cannot be written (store).", "reqps", 8,
			query(`sum by (instance, reason) (rate(llmgov_requests_total{@gateway, @pool, outcome="refused", reason=~"store|store_lost"}[$__rate_interval]))`, "{{instance}} {{reason}}")).orElse("none"),
	)
	d.row("Policies",
		series("Revisions", "Gateways by the policy that they have in force. More than one for long: files differ. While they do, the least tpm that any of them knows holds.", "short", 12,
			query(`label_replace(count by (hash) (llmgov_policy_revision_info{@gateway}), "hash", "$1", "hash", "(.{12}).*")`, "{{hash}}")).stacked(),
		series("Age of the policy", "Time since each gateway took over the policy that it has in force.", "s", 12,
			query(`time() - llmgov_policy_reload_timestamp_seconds{@gateway}`, "{{instance}}")),
	)
	return *d
}
