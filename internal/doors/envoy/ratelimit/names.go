package ratelimit

import "strings"

// Names are the names of the entries that describe a call.
type Names struct{ Tenant, Key, Member, Model, Pool string }

// ParseNames reads "tenant=NAME key=NAME member=NAME model=NAME pool=NAME"; what is left out keeps its own name.
func ParseNames(text string) (n Names, ok bool) {
	n = Names{Tenant: "tenant", Key: "key", Member: "member", Model: "model", Pool: "pool"}
	entries := map[string]*string{"tenant": &n.Tenant, "key": &n.Key, "member": &n.Member, "model": &n.Model, "pool": &n.Pool}
	for _, f := range strings.Fields(text) {
		what, name, _ := strings.Cut(f, "=")
		if entries[what] == nil || name == "" {
			return n, false
		}
		*entries[what] = name
	}
	return n, true
}
