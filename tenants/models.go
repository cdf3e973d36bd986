package tenants

import (
	"cmp"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/glob"
)

// checkPattern complains about a pattern that no model name could match.
func checkPattern(pattern string) string {
	if pattern == "" {
		return "is not a model; write a name or a pattern"
	}
	return strictyaml.CheckName(pattern)
}

// readModelList reads a list of patterns; an entry that is none reads as "".
func readModelList(v value) []string { return atMost(v, v.Texts(readPattern), maxEntries) }

func readPattern(v value) string {
	text, ok := v.Scalar()
	if !ok {
		return ""
	}
	if complaint := checkPattern(text); complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return ""
	}
	return glob.Plain(text)
}

// route leads from a pattern to the index of the pool or price that lists it.
type route struct {
	pattern string
	at      int
}

// routes finds the pool or price of a model: exact names by map, then globs from the most specific.
type routes struct {
	exact map[string]int
	globs []route
}

func newRoutes(pools []Pool) routes {
	lists := make([][]string, len(pools))
	for i, p := range pools {
		lists[i] = p.Models
	}
	return routesTo(lists)
}

// routesTo leads from the patterns of each list to its index.
func routesTo(lists [][]string) routes {
	rs := routes{exact: map[string]int{}}
	for i, list := range lists {
		for _, m := range list {
			if glob.Is(m) {
				rs.globs = append(rs.globs, route{m, i})
				continue
			}
			rs.exact[m] = i
		}
	}
	slices.SortFunc(rs.globs, func(a, b route) int {
		return cmp.Or(cmp.Compare(glob.Literals(b.pattern), glob.Literals(a.pattern)), strings.Compare(a.pattern, b.pattern))
	})
	return rs
}

// OtherModels is the name under which models are counted that no file names.
const OtherModels = "other"

// CountedModel is the name under which calls of a model are counted: its own if a pool, a tenant, a price or a list of prices names it, else
// the pattern that leads to its pool. So there are no more names than the files and lists have.
func (s *Snapshot) CountedModel(model string) string {
	_, routed := s.routes.exact[model]
	_, priced := s.prices.exact[model]
	if routed || priced || s.prices.listed[model] != nil || s.named[model] {
		return model
	}
	for i := range s.routes.globs {
		if pattern := s.routes.globs[i].pattern; glob.Match(pattern, model) && glob.Literals(pattern) > 0 {
			return pattern
		}
	}
	return OtherModels
}

// modelsNamed are the models that tenants name.
func modelsNamed(list []Tenant) map[string]bool {
	named := map[string]bool{}
	for i := range list {
		for _, m := range list[i].Models {
			if !glob.Is(m) {
				named[m] = true
			}
		}
	}
	return named
}

func (rs *routes) find(model string) (at int, ok bool) {
	if i, ok := rs.exact[model]; ok {
		return i, true
	}
	for i := range rs.globs {
		if glob.Match(rs.globs[i].pattern, model) {
			return rs.globs[i].at, true
		}
	}
	return 0, false
}
