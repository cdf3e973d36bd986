package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/llmgov/llmgov/tenants"
)

// expirySoon is the time before a key's expiry in which it is noted.
const expirySoon = 30 * 24 * time.Hour

// expiring notes keys that have expired or soon will.
func expiring(snap *tenants.Snapshot, now time.Time) (notes []string) {
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
			again = "make another with llmgov keys new --tenant " + k.Tenant
			gone = "revoke it"
		}
		at := k.Expires.In(snap.Location()).Format(time.RFC3339)
		note := fmt.Sprintf("tenant %s: key %s expires at %s; %s", k.Tenant, name, at, again)
		if k.Expired(now) {
			note = fmt.Sprintf("tenant %s: key %s expired at %s; %s", k.Tenant, name, at, gone)
		}
		notes = append(notes, note)
	}
	return notes
}

// manyNames is the number of names that a note gives of a list.
const manyNames = 5

// keyless notes tenants that have neither a key nor teams.
func keyless(snap *tenants.Snapshot) []string {
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
	if len(names) == 0 {
		return nil
	}
	made := "a key is made: llmgov keys new --tenant " + names[0]
	more := ""
	if len(names) > 1 {
		made = "keys are made: llmgov keys new --tenant NAME"
	}
	if len(names) > manyNames {
		more = fmt.Sprintf(" and %d more", len(names)-manyNames)
		names = names[:manyNames]
	}
	return []string{fmt.Sprintf("nobody can call as %s%s, until %s", strings.Join(names, ", "), more, made)}
}
