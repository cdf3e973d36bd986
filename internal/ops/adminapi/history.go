package adminapi

// History is the last hour of a pool. All lists are as long as Times.
type History struct {
	Pool        string  `json:"pool"`
	StepSeconds float64 `json:"step_seconds"`
	// Axis is that of Used and Limit: the first limit of the pool, or concurrency without one.
	Axis string `json:"axis"`
	// Times are seconds since 1970, ascending. Steps in which the gateway did not run are left out.
	Times    []int64   `json:"times"`
	Used     []int64   `json:"used"`
	Limit    []*int64  `json:"limit"` // null while there was none
	Running  []int32   `json:"running"`
	Waiting  []int32   `json:"waiting"`
	Received []float64 `json:"received_ratio"` // by all tenants together
	Refused  []uint32  `json:"refused"`
	Failed   []uint32  `json:"failed"`
	// Tenants are those that received most, or those that were asked for.
	Tenants []TenantHistory `json:"tenants"`
	// TenantsActive is how many tenants did anything within the hour, and TenantsOmitted how many of
	// the last step there was no room for.
	TenantsActive  int `json:"tenants_active"`
	TenantsOmitted int `json:"tenants_omitted"`
}

// TenantHistory is the last hour of a tenant in a pool.
type TenantHistory struct {
	Name     string    `json:"name"`
	Received []float64 `json:"received_ratio"`
	Entitled []float64 `json:"entitled_ratio"`
	Refused  []int64   `json:"refused"`
	Failed   []int64   `json:"failed"`
}
