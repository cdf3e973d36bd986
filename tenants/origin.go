package tenants

import (
	"maps"
	"slices"
	"strings"
	"unique"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// places are where a tenant's keys and values are written, sorted by their paths below it. Thousands of tenants write the same
// keys, so these are kept once.
type places struct {
	tenant, file string
	list         []mark
}

type mark struct {
	key       unique.Handle[string] // "" is the tenant itself
	line, col int32
}

// ofTenants begins the paths of tenants.
const ofTenants = "tenants" + strictyaml.PathSep

// placesOf are the places of one of a file's tenants, of all that were found of it.
func placesOf(file, tenant string, found map[string]place) *places {
	p := &places{tenant: tenant, file: file, list: make([]mark, 0, len(found))}
	for path, at := range found {
		_, key, _ := cutTenant(path)
		p.list = append(p.list, mark{unique.Make(key), int32(at.Line), int32(at.Col)})
	}
	slices.SortFunc(p.list, func(a, b mark) int { return strings.Compare(a.key.Value(), b.key.Value()) })
	return p
}

// cutTenant takes a path apart: the name of its tenant, and what stands below that.
func cutTenant(path string) (name, key string, ok bool) {
	path, ok = strings.CutPrefix(path, ofTenants)
	name, key, _ = strings.Cut(path, strictyaml.PathSep)
	return name, key, ok
}

// placeOf finds a path among the places of tenants.
func placeOf(list []*places, path string) (place, bool) {
	name, key, ok := cutTenant(path)
	if !ok {
		return place{}, false
	}
	i, ok := slices.BinarySearchFunc(list, name, func(p *places, name string) int { return strings.Compare(p.tenant, name) })
	if !ok {
		return place{}, false
	}
	p := list[i]
	i, ok = slices.BinarySearchFunc(p.list, key, func(m mark, key string) int { return strings.Compare(m.key.Value(), key) })
	if !ok {
		return place{}, false
	}
	return place{File: p.file, Line: int(p.list[i].line), Col: int(p.list[i].col)}, true
}

// origins are where the values of tiers, tenants and pools are written, for [Snapshot.Origin]. No request looks at them.
type origins struct{ *report }

// newOrigins keeps of a load what it needs for that.
func newOrigins(r *report) origins {
	kept := maps.Clone(r.Places)
	maps.DeleteFunc(kept, func(path string, _ place) bool {
		return !strings.HasPrefix(path, "tiers"+strictyaml.PathSep) && !strings.HasPrefix(path, "pools"+strictyaml.PathSep)
	})
	return origins{&report{Places: kept, More: r.More}}
}

// first is the place of the first path that is written, or "".
func (o origins) first(paths ...string) string {
	for _, path := range paths {
		if at, ok := o.Written(path); ok {
			return at.String()
		}
	}
	return ""
}

// inherited are the keys that a team has from its parent when it does not say them.
var inherited = []string{"models", "routes", "service_tiers", "upstreams", "default_pool", "max_wait", "priority", "priority_by", "credit", "spent"}

// paths are where a value of t may be written, the one that wins first.
func (t *Tenant) paths(key string) []string {
	list := []string{strictyaml.Child(t.path(), key)}
	tier := strictyaml.Child(strictyaml.Child("tiers", t.Tier), key)
	if t.OwnTier {
		list = append(list, tier)
	}
	if t.Parent >= 0 {
		if !slices.Contains(inherited, key) {
			return list
		}
		for path := t.path(); strings.Count(path, strictyaml.PathSep) > 1; {
			path = path[:strings.LastIndex(path, strictyaml.PathSep+"teams"+strictyaml.PathSep)]
			list = append(list, strictyaml.Child(path, key))
		}
	}
	if t.Tier != "" && !t.OwnTier {
		list = append(list, tier)
	}
	return list
}
