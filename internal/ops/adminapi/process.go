package adminapi

import "time"

// Process describes the gateway's process.
type Process struct {
	StartedAt     time.Time `json:"started_at"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	// MemoryBytes is what it has from the system, and MemoryLimitBytes is GOMEMLIMIT; nil if that
	// is not set.
	MemoryBytes      int64  `json:"memory_bytes"`
	MemoryLimitBytes *int64 `json:"memory_limit_bytes"`
	// CPUs is how many of them it may use.
	CPUs int `json:"cpus"`
}

// Version answers GET /version.
type Version struct {
	Version string `json:"version"`
}
