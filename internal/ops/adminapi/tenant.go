package adminapi

// Tenant is a tenant or team. Weight is its claim within its parent's share, else within its
// group's, else within the pool, where GroupWeight is its group's claim.
type Tenant struct {
	Name           string         `json:"name"`
	Parent         string         `json:"parent"` // of a team
	Tier           string         `json:"tier"`
	Group          string         `json:"group"`
	Weight         float64        `json:"weight"`
	GroupWeight    float64        `json:"group_weight"` // 0 without a group
	MaxWaitSeconds float64        `json:"max_wait_seconds"`
	Shadow         bool           `json:"shadow"`
	ShadowRefused  int64          `json:"shadow_refused"` // calls that went although the limits would have refused them
	Limits         []Limit        `json:"limits"`
	Running        int64          `json:"running"`
	Waiting        int            `json:"waiting"` // for own limits
	Queued         map[string]int `json:"queued"`  // by pool
	Budgets        []Budget       `json:"budgets"` // own, then parts of pools'
}

// TenantList has tenants and teams, sorted by name.
type TenantList struct {
	Tenants []Tenant `json:"tenants"`
	Total   int      `json:"total"`          // on all pages
	Next    string   `json:"next,omitempty"` // the after of the next page; left out on the last
}
