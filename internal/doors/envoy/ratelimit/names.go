package ratelimit

import "strings"

// Names are the names of the entries that describe a call.
type Names struct{ Tenant, Key, Member, Model, Pool string }

// ParseNames reads "tenant=NAME key=NAME member=NAME model=NAME pool=NAME"; what is left out keeps its own name.
func ParseNames(text string) (n Names, ok bool) {
	n = Names{Tenant: "tenant", Key: "key", Member: "member", Model: "model", Pool: "pool"}
	for _, f := range strings.Fields(text) {
		what, name, _ := strings.Cut(f, "=")
		if name == "" {
			return n, false
		}
		switch what {
		case "tenant":
			n.Tenant = name
		case "key":
			n.Key = name
		case "member":
			n.Member = name
		case "model":
			n.Model = name
		case "pool":
			n.Pool = name
		default:
			return n, false
		}
	}
	return n, true
}
