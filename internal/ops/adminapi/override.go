package adminapi

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// Override replaces limits of a tenant or team at run time, until it ends.
type Override struct {
	// Tenant is the name of the tenant or team: acme, or acme/search.
	Tenant string `json:"tenant"`
	// RPM, TPM, ITPM, OTPM and Concurrency are the limits that it replaces. At 0 no call passes. What is left out stays as the files have it.
	RPM         *int64 `json:"rpm,omitempty"`
	TPM         *int64 `json:"tpm,omitempty"`
	ITPM        *int64 `json:"itpm,omitempty"`
	OTPM        *int64 `json:"otpm,omitempty"`
	Concurrency *int64 `json:"concurrency,omitempty"`
	// Until is its end; null is none.
	Until *time.Time `json:"until"`
	// Why is the reason, By who gave it, and Made when.
	Why  string    `json:"why"`
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
