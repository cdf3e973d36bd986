// Package litellm turns the config of a LiteLLM proxy into files of llmgov.
//
//	model_list ───────────► upstreams, pools, prices      models.go, upstreams.go, groups.go, pools.go
//	teams, keys, budgets ─► tiers, tenants, their teams   teams.go, keys.go
//	everything else ──────► a list of what has no counterpart, each with its place
//
// Nothing is passed over in silence: a reader takes the keys that it understands (tree.go), and what nobody took is in
// the list. What means something else afterwards is in it too.
//
// It does not read LiteLLM's database, where teams and keys live that were made by its API.
package litellm
