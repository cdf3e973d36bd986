package tenants

import (
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// origins remembers where the values of tiers, tenants and pools are written, for [Snapshot.Origin]. It
// holds one entry a written key, and no request looks at it.
type origins map[string]place

// newOrigins picks those places out of all that a load has seen: kind, name, key, and the entries of budgets.
func newOrigins(places map[string]place) origins {
	o := origins{}
	for path, at := range places {
		kind, rest, _ := strings.Cut(path, strictyaml.PathSep)
		if kind != "tiers" && kind != "tenants" && kind != "pools" {
			continue
		}
		_, key, ok := strings.Cut(rest, strictyaml.PathSep)
		for ok && strings.HasPrefix(key, "teams"+strictyaml.PathSep) {
			_, key, ok = strings.Cut(key[len("teams"+strictyaml.PathSep):], strictyaml.PathSep)
		}
		if ok && decides(key) {
			o[path] = at
		}
	}
	return o
}

// decides reports whether a path below a tier, a tenant or a pool is that of a value which decides about calls: a key,
// or an entry of one of these.
func decides(path string) bool {
	key, rest, deeper := strings.Cut(path, strictyaml.PathSep)
	if !deeper {
		return true
	}
	switch key {
	case "budgets", "limits", "concurrency":
		return !strings.Contains(rest, strictyaml.PathSep)
	case "pools":
		_, limit, _ := strings.Cut(rest, strictyaml.PathSep)
		return limit != "" && decides(limit)
	}
	return false
}

// first is the place of the first path that is written, or "".
func (o origins) first(paths ...string) string {
	for _, path := range paths {
		if at, written := o[path]; written {
			return at.String()
		}
	}
	return ""
}

// inherited are the keys that a team has from its parent when it does not say them.
var inherited = []string{"models", "routes", "upstreams", "default_pool", "max_wait", "priority", "priority_by", "credit", "spent"}

// paths are where a value of t may be written, the one that wins first.
func (t *Tenant) paths(key string) []string {
	list := []string{strictyaml.Child(t.path(), key)}
	if t.Parent >= 0 {
		if !slices.Contains(inherited, key) {
			return list
		}
		for path := t.path(); strings.Count(path, strictyaml.PathSep) > 1; {
			path = path[:strings.LastIndex(path, strictyaml.PathSep+"teams"+strictyaml.PathSep)]
			list = append(list, strictyaml.Child(path, key))
		}
	}
	if t.Tier != "" {
		list = append(list, strictyaml.Child(strictyaml.Child("tiers", t.Tier), key))
	}
	return list
}
