// Package litellm turns the config of a LiteLLM proxy into files of llmgov.
//
//	model_list ───────────► upstreams, pools, prices      models.go, upstreams.go, groups.go, pools.go
//	teams, keys, budgets ─► tiers, tenants, their teams   teams.go, keys.go
//	everything else ──────► a list of keys without a counterpart, each with its place
//
// Nothing is passed over in silence: a reader takes the keys that it understands (tree.go), and all others are in
// the list. So are keys that mean something else afterwards.
//
// It does not read LiteLLM's database, where teams and keys live that were made by its API.
package litellm
