package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/llmgov/llmgov/tenants"
)

// expirySoon is the time before a key's expiry in which it is noted.
const expirySoon = 30 * 24 * time.Hour

// keysOf counts the valid and the expired keys of each tenant.
func keysOf(snap *tenants.Snapshot) map[string]int {
	n := map[string]int{}
	for _, k := range snap.Keys() {
		if k.Status == tenants.KeyOpens {
			n[k.Tenant]++
		}
	}
	return n
}

// keys notes keys that have expired or soon will.
func (r *report) keys(snap *tenants.Snapshot, now time.Time) {
	for _, k := range snap.Keys() {
		if k.Status != tenants.KeyOpens || k.Expires.IsZero() || !k.Expired(now.Add(expirySoon)) {
			continue
		}
		name := k.Name
		again := "make another with llmgov keys new"
		gone := "remove it"
		if name == "" {
			name = k.Hash.String()[:15] + "…"
		}
		if k.Runtime {
			name = k.Hash.ID()
			again = "make another with POST /api/v1/keys"
			gone = "revoke it"
		}
		at := k.Expires.In(snap.Location()).Format(time.RFC3339)
		what := fmt.Sprintf("tenant %s: key %s expires at %s; %s", k.Tenant, name, at, again)
		if k.Expired(now) {
			what = fmt.Sprintf("tenant %s: key %s expired at %s; %s", k.Tenant, name, at, gone)
		}
		r.Notes = append(r.Notes, what)
	}
}

// manyNames is the number of names that a note gives of a list.
const manyNames = 5

// keyless notes tenants that have neither a key nor teams.
func (r *report) keyless(snap *tenants.Snapshot) {
	list := snap.Tenants()
	callable := snap.Callable()
	above := make([]bool, len(list))
	for i := range list {
		if list[i].Parent >= 0 {
			above[list[i].Parent] = true
		}
	}
	var names []string
	for i := range list {
		if !callable[i] && !above[i] {
			names = append(names, list[i].Name)
		}
	}
	what := "a key is"
	more := ""
	if len(names) > 1 {
		what = "keys are"
	}
	if len(names) > manyNames {
		more = fmt.Sprintf(" and %d more", len(names)-manyNames)
		names = names[:manyNames]
	}
	if len(names) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("nobody can call as %s%s, until %s made: POST /api/v1/keys", strings.Join(names, ", "), more, what))
	}
}
