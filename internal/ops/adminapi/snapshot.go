package adminapi

import "time"

// Snapshot is the present state of the gateway, with its pools in the order of the policy.
type Snapshot struct {
	Version    string `json:"version"`
	Node       string `json:"node"`
	Region     string `json:"region"`
	PolicyHash string `json:"policy_hash"`
	Draining   bool   `json:"draining"`
	Tenants    int    `json:"tenants"`
	Pools      []Pool `json:"pools"`

	// Caption is a sentence about what is to be seen; "" if there is none. A demo has one.
	Caption string `json:"caption,omitempty"`

	// Policy is nil without policy files.
	Policy *PolicyStatus `json:"policy,omitempty"`

	// Conditions are all that is not as it should be, errors first.
	Conditions []Condition `json:"conditions"`
	Process    Process     `json:"process"`
	// Timezone is that of budgets.
	Timezone string `json:"timezone"`
}

// Pool is the present state of a pool.
type Pool struct {
	Name       string   `json:"name"`
	Upstream   string   `json:"upstream"`
	Models     []string `json:"models"`
	Accounting string   `json:"accounting"`
	Limits     []Limit  `json:"limits"`
	// Adaptive is set if the limit on concurrent calls moves. Its present value stands in Limits.
	Adaptive *Adaptive `json:"adaptive,omitempty"`
	Running  int64     `json:"running"`
	Waiting  int       `json:"waiting"`
	// Failed is how many admitted calls failed in the last minute.
	Failed       int64   `json:"failed_last_minute"`
	OldestWait   float64 `json:"oldest_wait_seconds"`
	BurstSeconds float64 `json:"burst_seconds"`
	// RateRatio is the part of the rate that is handed out. HeldUntil is the time until which
	// nothing is handed out, because upstreams are missing or have asked for a pause.
	RateRatio float64    `json:"rate_ratio"`
	HeldUntil *time.Time `json:"held_until"`
	Upstreams []Upstream `json:"upstreams"`

	Budgets []Budget `json:"budgets"`
	// Sharing is nil if the pool's limits are not shared with other gateways.
	Sharing *Sharing `json:"sharing,omitempty"`

	// Fairness lists the tenants that ask for most, and Leases the oldest leases.
	Fairness    Fairness `json:"fairness"`
	LeasesTotal int      `json:"leases_total"`
	Leases      []Lease  `json:"leases"`
}

// Upstream is the gateway's belief about one of a pool's upstreams.
type Upstream struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Weight int64  `json:"weight"`
	// Order says who comes first: those of the lowest of which one is ready.
	Order int64 `json:"order"`
	// State is up, busy (it asked for a pause), open (it fails, and gets no calls) or probing (the
	// next call will tell whether it works again).
	State string     `json:"state"`
	Until *time.Time `json:"until"`
	// Since is when it began to fail; null while it is up or busy.
	Since *time.Time `json:"down_since"`
	// Cause is why it fails, such as "connection refused"; left out while it is up or busy.
	Cause string `json:"down_cause,omitempty"`
	// TPM, RPM, ITPM and OTPM are the limits that it declared of late; null if it did not.
	TPM  *int64 `json:"declared_tpm"`
	RPM  *int64 `json:"declared_rpm"`
	ITPM *int64 `json:"declared_itpm"`
	OTPM *int64 `json:"declared_otpm"`
	// ForeignRatio is the largest part of a declared limit that others with the same key use; left out while they use little.
	ForeignRatio float64 `json:"foreign_ratio,omitempty"`
	// Engine is the load of its server; nil if the config does not say how to read it, or it was not read yet.
	Engine *Engine `json:"engine,omitempty"`
}

// Engine is the load of an upstream's server, as its own metrics told it. If it is not Fresh, they were not read in the last seconds,
// and Error is why.
type Engine struct {
	Running int64   `json:"running"`
	Waiting int64   `json:"waiting"`
	KVUse   float64 `json:"kv_cache_use"`
	Fresh   bool    `json:"fresh"`
	Error   string  `json:"error,omitempty"`
}

// Lease is an admitted call that has not been settled.
type Lease struct {
	ID         string  `json:"id"`
	Tenant     string  `json:"tenant"`
	Pool       string  `json:"pool"`
	State      string  `json:"state"`
	AgeSeconds float64 `json:"age_seconds"`
	HeldTokens int64   `json:"held_tokens"`
	UsedTokens int64   `json:"used_tokens"`
	Stream     bool    `json:"stream"`
}

// LeaseList has the leases of all pools, ordered by id.
type LeaseList struct {
	Leases []Lease `json:"leases"`
}
