package adminapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Override replaces limits of a tenant, team or member at run time, until it ends.
type Override struct {
	// Tenant is the name of the tenant, team or member: acme, acme/search, or acme/~ann.
	Tenant string `json:"tenant"`
	// RPM, TPM, ITPM, OTPM and Concurrency are the limits that it replaces. At 0 no call passes. What is left out stays as the files have it.
	RPM         *int64 `json:"rpm,omitempty"`
	TPM         *int64 `json:"tpm,omitempty"`
	ITPM        *int64 `json:"itpm,omitempty"`
	OTPM        *int64 `json:"otpm,omitempty"`
	Concurrency *int64 `json:"concurrency,omitempty"`
	// Weight replaces the weight.
	Weight *float64 `json:"weight,omitempty"`
	// Budgets replace all budgets, each as in "500000 tokens per day".
	Budgets []string `json:"budgets,omitempty"`
	// Pools replace limits in single pools, each as in "tpm 60000 in gpt-4o".
	Pools []string `json:"pools,omitempty"`
	// Until is its end; null is none.
	Until *time.Time `json:"until"`
	// Why is the reason, By who gave it, and Made when.
	Why  string    `json:"why"`
	By   string    `json:"by"`
	Made time.Time `json:"made"`
}

// RuntimeTenant is a tenant with its teams that was set at run time, in place of one of the files.
type RuntimeTenant struct {
	Tenant string `json:"tenant"`
	// Policy is what a policy file would have below its name.
	Policy json.RawMessage `json:"policy"`
	// Why is the reason, By who gave it, and Made when.
	Why  string    `json:"why,omitempty"`
	By   string    `json:"by"`
	Made time.Time `json:"made"`
}

// OverrideList has all overrides that have not ended.
type OverrideList struct {
	Overrides []Override `json:"overrides"`
}

// Limits are the limits that it replaces, as texts such as "tpm 500000".
func (o *Override) Limits() string {
	var parts []string
	for _, l := range []struct {
		key   string
		limit *int64
	}{{"rpm", o.RPM}, {"tpm", o.TPM}, {"itpm", o.ITPM}, {"otpm", o.OTPM}, {"concurrency", o.Concurrency}} {
		if l.limit != nil {
			parts = append(parts, l.key+" "+strconv.FormatInt(*l.limit, 10))
		}
	}
	if o.Weight != nil {
		parts = append(parts, fmt.Sprint("weight ", *o.Weight))
	}
	parts = slices.Concat(parts, o.Budgets, o.Pools)
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// String is a sentence about it without its point.
func (o *Override) String() string {
	text := o.Tenant + " has " + o.Limits() + " by an override of " + o.By
	if o.Until != nil {
		text += " until " + o.Until.UTC().Format(time.RFC3339)
	}
	return text + " (" + o.Why + ")"
}
