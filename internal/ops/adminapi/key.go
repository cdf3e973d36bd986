package adminapi

import "time"

// Key is one API key in the list, without the key itself.
type Key struct {
	ID         string `json:"id"`
	Tenant     string `json:"tenant"`
	Name       string `json:"name"`
	HashPrefix string `json:"hash_prefix"`
	// Source is policy, or runtime for a key that was made through this API or llmgov keys.
	Source string `json:"source"`
	// Status is active, revoked, no_tenant or overlaid.
	Status     string     `json:"status"`
	Created    *time.Time `json:"created"` // null for keys in policy files
	Expires    *time.Time `json:"expires"`
	Expired    bool       `json:"expired"`
	LastUsedAt *time.Time `json:"last_used_at"` // by this process
}

// KeyList has the keys of one tenant, or all.
type KeyList struct {
	Keys []Key `json:"keys"`
}

// CreatedKey is a key that was just made. This is the only time that Key is shown.
type CreatedKey struct {
	ID      string     `json:"id"`
	Key     string     `json:"key,omitempty"`
	Hash    string     `json:"hash"`
	Tenant  string     `json:"tenant"`
	Name    string     `json:"name"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires"`
}

// RevokedKey is a key that is not accepted any more.
type RevokedKey struct {
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	Name    string    `json:"name"`
	Revoked time.Time `json:"revoked"`
}
