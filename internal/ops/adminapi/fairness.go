package adminapi

// Fairness says how fairly a pool was shared in the last minute.
type Fairness struct {
	Jain         float64 `json:"jain_index"`
	Deviation    float64 `json:"max_deviation_ratio"`
	Unused       int64   `json:"unused_while_waiting_tokens"` // since the process began
	TenantsTotal int     `json:"tenants_total"`
	// Tenants are in the order of the policy.
	Tenants []Share `json:"tenants"`
}

// Share compares a tenant's part of a pool in the last minute with its entitlement. Both are parts
// of the whole.
type Share struct {
	Name       string  `json:"name"`
	Weight     float64 `json:"weight"`
	Guaranteed float64 `json:"guaranteed_ratio"` // by weight alone
	Entitled   float64 `json:"entitled_ratio"`
	Received   float64 `json:"received_ratio"`
	Demand     float64 `json:"demand_ratio"`
	Running    int     `json:"running"`
	Queued     int     `json:"queued"`
	OldestWait float64 `json:"oldest_wait_seconds"`
	Debt       int64   `json:"debt_tokens"`
	Borrowed   int64   `json:"borrowed_tokens"` // since the process began, as Lent
	Lent       int64   `json:"lent_tokens"`
}

// PoolFairness is the Fairness of one pool in a list.
type PoolFairness struct {
	Name string `json:"name"`
	Fairness
}

// FairnessList has all pools, each with all of its tenants.
type FairnessList struct {
	Pools []PoolFairness `json:"pools"`
}
