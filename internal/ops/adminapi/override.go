package adminapi

import "github.com/llmgov/llmgov/tenants"

// OverrideList has all overrides that have not ended.
type OverrideList struct {
	Overrides []tenants.Override `json:"overrides"`
}
