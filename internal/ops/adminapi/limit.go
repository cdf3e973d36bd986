package adminapi

import "time"

// Limit is one limit. Headroom is taken off a pool's rolling limits. Pool is set for a tenant's
// limits in one pool.
type Limit struct {
	Axis  string `json:"axis"`
	Pool  string `json:"pool,omitempty"`
	Limit int64  `json:"limit"`
	Used  int64  `json:"used"`
}

// Adaptive is the range in which a limit on concurrent calls moves.
type Adaptive struct {
	Law string `json:"law"`
	Min int64  `json:"min"`
	Max int64  `json:"max"`
	// Room is how many calls in flight the upstreams' servers have room for, by their own metrics; left out if they do not say.
	Room int64 `json:"room,omitempty"`
}

// Budget is one budget, or a tenant's part of a pool's; money is in dollars.
type Budget struct {
	Name     string    `json:"name"`
	Unit     string    `json:"unit"`
	Per      string    `json:"per"`
	Pool     string    `json:"pool,omitempty"`
	Limit    float64   `json:"limit"`
	Used     float64   `json:"used"`
	ResetsAt time.Time `json:"resets_at"`
}
