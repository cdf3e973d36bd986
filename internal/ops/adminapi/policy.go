package adminapi

// Policy is the policy in force, and where each limit is written.
type Policy struct {
	Hash  string       `json:"hash"`
	Pools []PolicyPool `json:"pools"`
}

// PolicyPool is a pool, with the tenants that may use it.
type PolicyPool struct {
	Name    string         `json:"name"`
	Models  []string       `json:"models"`
	Limits  []PolicyLimit  `json:"limits"`
	Tenants []PolicyTenant `json:"tenants"`
}

// PolicyTenant is a tenant or team in one pool.
type PolicyTenant struct {
	Name  string `json:"name"`
	Tier  string `json:"tier"`
	Group string `json:"group"`
	// Share is the part of the pool that its own keys get while everybody asks for more than they
	// get.
	Share  float64       `json:"share_ratio"`
	Limits []PolicyLimit `json:"limits"`
}

// PolicyLimit is a limit as the files have it.
type PolicyLimit struct {
	// Key is its name in the files; budgets[i] for a budget, pools.NAME.tpm for a limit in one pool.
	Key string `json:"key"`
	// Value is a number, or a text that a file could hold.
	Value any `json:"value"`
	// From is file:line:column; "" for a default, and for a policy that was made in code.
	From string `json:"from,omitempty"`
	// Of names the parent whose limit it is; "" for the tenant's or team's own.
	Of string `json:"of,omitempty"`
}
