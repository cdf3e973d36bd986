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
	// Members are who calls in its name, as far as the policy tells them apart. Only an answer that is of one tenant alone has them.
	Members *Members `json:"members,omitempty"`
}

// Members are those of a tenant that have called lately.
type Members struct {
	Total    int      `json:"total"`
	Heaviest []Member `json:"heaviest"` // at most ten
}

// Member is one of them. Tokens are those of its calls that have ended in the last minute, about.
type Member struct {
	Name    string   `json:"name"` // without its tenant's; empty for calls that name nobody
	Tokens  float64  `json:"tokens_per_minute"`
	Running int64    `json:"running"`
	Waiting int      `json:"waiting"` // for own limits
	Limits  []Limit  `json:"limits"`
	Budgets []Budget `json:"budgets"`
}

// Me is who asks, and what that may do: a page shows no more.
type Me struct {
	User    string   `json:"user"`
	Role    string   `json:"role"`
	Tenants []string `json:"tenants,omitempty"` // patterns of those whose keys the role keys is about
}

// TenantList has tenants and teams, sorted by name.
type TenantList struct {
	Tenants []Tenant `json:"tenants"`
	Total   int      `json:"total"`          // on all pages
	Next    string   `json:"next,omitempty"` // the after of the next page; left out on the last
}
