package tenants

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
)

// Override replaces limits of a tenant or team at run time, until it ends.
type Override struct {
	// Tenant is the name of the tenant or team.
	Tenant string `json:"tenant"`
	// RPM, TPM, ITPM, OTPM and Concurrency are the limits over all pools that it replaces, at most [MaxOverride]; nil leaves that of the
	// policy. At 0 no call passes.
	RPM         *int64 `json:"rpm,omitempty"`
	TPM         *int64 `json:"tpm,omitempty"`
	ITPM        *int64 `json:"itpm,omitempty"`
	OTPM        *int64 `json:"otpm,omitempty"`
	Concurrency *int64 `json:"concurrency,omitempty"`
	// Until is its end; nil is none.
	Until *time.Time `json:"until"`
	// Why is the reason, By who gave it, and Made when.
	Why  string    `json:"why"`
	By   string    `json:"by"`
	Made time.Time `json:"made"`
}

// MaxOverride is the largest limit of an Override.
const MaxOverride = maxAmount

// Amounts are the limits that it replaces, by their axes.
func (o *Override) Amounts() map[terms.Axis]int64 {
	all := map[terms.Axis]*int64{terms.Requests: o.RPM, terms.Tokens: o.TPM, terms.Input: o.ITPM, terms.Output: o.OTPM, terms.Concurrency: o.Concurrency}
	set := map[terms.Axis]int64{}
	for k, amount := range all {
		if amount != nil {
			set[k] = *amount
		}
	}
	return set
}

// Live reports whether it has not ended.
func (o *Override) Live(now time.Time) bool { return o.Until == nil || now.Before(*o.Until) }

// String says whose it is and until when, as the place where a limit is written.
func (o *Override) String() string {
	text := "override by " + o.By
	if o.Until != nil {
		text += " until " + o.Until.UTC().Format(time.RFC3339)
	}
	return text + " (" + o.Why + ")"
}

// laid is what a snapshot is with overrides, and what it was without.
type laid struct {
	list    []Override // sorted by their tenants
	tenants []Tenant
	full    [sha256.Size]byte
}

// WithOverrides is the snapshot with other overrides, and else the same. There is one of a tenant at most; those of tenants that the
// policy does not have do nothing. Its Hash stays that of the files.
func (s *Snapshot) WithOverrides(list []Override) *Snapshot {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Override) int { return strings.Compare(a.Tenant, b.Tenant) })
	if len(list) == 0 && len(s.laid.list) == 0 {
		return s
	}
	out := *s
	if len(s.laid.list) > 0 {
		out.tenants = s.laid.tenants
		out.runtime.full = s.laid.full
	}
	out.laid = laid{list: list, tenants: out.tenants, full: out.runtime.full}
	if len(list) > 0 {
		out.tenants = slices.Clone(out.tenants)
		out.runtime.full = sha256.Sum256(append(out.runtime.full[:], encode(list)...))
	}
	for i := range list {
		if at, known := s.byName[list[i].Tenant]; known {
			out.override(at, &list[i])
		}
	}
	return out.withKeys(out.runtime)
}

// override lays an override over the tenant at a place, whose teams stand behind it.
func (s *Snapshot) override(at int, o *Override) {
	t := &s.tenants[at]
	for k, amount := range o.Amounts() {
		if amount > 0 {
			*t.Amount(k) = amount
			continue
		}
		for i := at; i < len(s.tenants) && strings.HasPrefix(s.tenants[i].Name, t.Name); i++ { // "acme-2" may be before "acme/a"
			if i == at || strings.HasPrefix(s.tenants[i].Name, t.Name+teamSep) {
				s.tenants[i].Blocked = o
			}
		}
	}
}

// Overrides are those in force, sorted by their tenants.
func (s *Snapshot) Overrides() []Override { return s.laid.list }

// SamePolicy reports whether two snapshots have the same policy, with its overrides: whether they differ in keys, secrets and addresses at most.
func (s *Snapshot) SamePolicy(o *Snapshot) bool {
	return s.hash == o.hash && bytes.Equal(encode(s.laid.list), encode(o.laid.list))
}

// OverrideOf is the override of a tenant or team itself; nil if there is none.
func (s *Snapshot) OverrideOf(name string) *Override {
	i, found := slices.BinarySearchFunc(s.laid.list, name, func(o Override, name string) int { return strings.Compare(o.Tenant, name) })
	if !found {
		return nil
	}
	return &s.laid.list[i]
}

// overridden is where an override has a limit of t from; "" if none has.
func (s *Snapshot) overridden(t *Tenant, key string) string {
	o := s.OverrideOf(t.Name)
	if o == nil {
		return ""
	}
	for k, amount := range o.Amounts() {
		if k.Key() == key && amount > 0 {
			return o.String()
		}
	}
	return ""
}
