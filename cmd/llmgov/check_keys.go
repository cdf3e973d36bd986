package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/llmgov/llmgov/tenants"
)

// expirySoon is how long before the end of a key it is noted.
const expirySoon = 30 * 24 * time.Hour

// keys notes keys that have expired or soon will.
func (r *report) keys(snap *tenants.Snapshot, now time.Time) {
	list := snap.Tenants()
	for i := range list {
		for j := range list[i].Keys {
			k := &list[i].Keys[j]
			if k.Expires.IsZero() || !k.Expired(now.Add(expirySoon)) {
				continue
			}
			name := k.Name
			if name == "" {
				name = k.Hash.String()[:15] + "…"
			}
			at := k.Expires.In(snap.Location()).Format(time.RFC3339)
			what := fmt.Sprintf("tenant %s: key %s expires at %s; make another with llmgov keys new", list[i].Name, name, at)
			if k.Expired(now) {
				what = fmt.Sprintf("tenant %s: key %s expired at %s; remove it", list[i].Name, name, at)
			}
			r.Notes = append(r.Notes, what)
		}
	}
}

// keysByTenant is how many keys open each tenant, those made at run time among them.
func keysByTenant(snap *tenants.Snapshot) map[string]int {
	n := map[string]int{}
	for _, k := range snap.Keys() {
		if k.Status == tenants.KeyOpens {
			n[k.Tenant]++
		}
	}
	return n
}

// manyNames is how many names a note gives of a list.
const manyNames = 5

// keyless notes who has neither a key nor teams.
func (r *report) keyless(snap *tenants.Snapshot) {
	list, callable := snap.Tenants(), snap.Callable()
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
	what, more := "a key is", ""
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
