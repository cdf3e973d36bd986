package instance

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// leaving is what a gateway that is about to stop announces instead of its address, so that others do not miss it.
const leaving = "leaving"

const (
	// missedAfter is how long nothing is heard of a gateway that is missing, while the store answers this one: longer than a beat takes that
	// comes after the longest pause. Its grants have expired by then. missedFor is how long that is said.
	missedAfter = 4 * time.Second
	missedFor   = 10 * time.Minute
)

// heard is when a gateway was heard of last, and what it announced.
type heard struct {
	at      time.Time
	address string
}

// absentees remembers the other gateways by their names, longer than the store does.
type absentees struct {
	looked time.Time
	back   time.Time // when the store answered again after an error: others may have to wait to hear of that
	last   map[string]heard
}

// look takes in a look at a pool.
func (a *absentees) look(now time.Time, own string, v federation.View) {
	a.looked = now
	for _, n := range v.Nodes {
		at := now.Add(-time.Duration(v.Now-n.Seen) * time.Millisecond)
		if n.Name != own && at.After(a.last[n.Name].at) {
			a.last[n.Name] = heard{at, n.Address}
		}
	}
	maps.DeleteFunc(a.last, func(_ string, h heard) bool { return now.Sub(h.at) > missedFor })
}

// missing are those of which nothing was heard before the last look, although they had not said that they stop. Another one at the
// same address has taken their place.
func (a *absentees) missing() (list []adminapi.Condition) {
	for _, name := range slices.Sorted(maps.Keys(a.last)) {
		h := a.last[name]
		replaced := false
		for _, other := range a.last {
			replaced = replaced || h.address != "" && other.address == h.address && other.at.After(h.at)
		}
		if h.address == leaving || replaced || min(a.looked.Sub(h.at), a.looked.Sub(a.back)) < missedAfter {
			continue
		}
		list = append(list, adminapi.Condition{
			Kind: adminapi.GatewayMissing, Severity: adminapi.Warning, Since: &h.at,
			Message: "Gateway " + name + " (" + cmp.Or(h.address, "address unknown") + ") is not heard of any more, and did not say that it stops. The others have its part.",
		})
	}
	return list
}
