package tenants

import (
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// origins remembers where the values of tiers, tenants and pools are written: what [Snapshot.Origin] answers from. It
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
	case "budgets", "concurrency":
		return !strings.Contains(rest, strictyaml.PathSep)
	case "pools":
		return strings.Count(rest, strictyaml.PathSep) == 1
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

// Origin is where t has its value of a key from, file:line:col: its own line, else that of its tier or, where a team
// has such a thing from its parent, of the parent. It is "" for a default, and in a snapshot that was made in code.
func (s *Snapshot) Origin(t *Tenant, key string) string {
	if t.Parent >= 0 {
		parent := &s.tenants[t.Parent]
		switch {
		case key == "shadow" && parent.Shadow,
			key == "priority" && parent.Background,
			key == "max_output_tokens" && parent.MaxOutputTokens == t.MaxOutputTokens:
			return s.Origin(parent, key)
		}
	}
	return s.origins.first(t.paths(key)...)
}

// PoolOrigin is where p has its value of a key from, file:line:col; "" as in [Snapshot.Origin].
func (s *Snapshot) PoolOrigin(p *Pool, key string) string {
	return s.origins.first(strictyaml.Child(strictyaml.Child("pools", p.Name), key))
}

// budgetOrigin is where the i-th budget of t is written. All budgets are of one list: the tenant's, else the tier's.
func (s *Snapshot) budgetOrigin(t *Tenant, i int) string {
	for _, path := range t.paths("budgets") {
		if _, written := s.origins[path]; written {
			return s.origins.first(strictyaml.Item(path, i))
		}
	}
	return ""
}

// inherited are the keys that a team has from its parent when it does not say them.
var inherited = []string{"models", "routes", "default_pool", "max_wait", "priority", "credit"}

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

// path is where files define t.
func (t *Tenant) path() string {
	if t.Parent < 0 {
		return strictyaml.Child("tenants", t.Name)
	}
	return strictyaml.Child("tenants", strings.ReplaceAll(t.Name, teamSep, strictyaml.PathSep+"teams"+strictyaml.PathSep))
}
