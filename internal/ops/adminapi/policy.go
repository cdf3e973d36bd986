package adminapi

import "github.com/llmgov/llmgov/tenants"

// Policy is the policy in force, and where each limit is written.
type Policy struct {
	Hash  string       `json:"hash"`
	Pools []PolicyPool `json:"pools"`
}

// PolicyPool is a pool, with the tenants that may use it.
type PolicyPool struct {
	Name    string          `json:"name"`
	Models  []string        `json:"models"`
	Limits  []tenants.Limit `json:"limits"`
	Tenants []PolicyTenant  `json:"tenants"`
}

// PolicyTenant is a tenant or team in one pool.
type PolicyTenant struct {
	Name  string `json:"name"`
	Tier  string `json:"tier"`
	Group string `json:"group"`
	// Share is the part of the pool that its own keys get while everybody asks for more than they
	// get.
	Share  float64         `json:"share_ratio"`
	Limits []tenants.Limit `json:"limits"`
}
