package main

import (
	"fmt"
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
