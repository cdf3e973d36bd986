package tenants

import (
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Routes is a set of groups of routes, which policies grant by name.
type Routes uint16

// The groups of routes.
const (
	// RouteInference is all that answers a prompt, and that is all most callers need.
	RouteInference Routes = 1 << iota
	// RouteModels is the list of models.
	RouteModels
	// RouteResponses is stored responses, by id. To create one is inference.
	RouteResponses
	// RouteFiles is files and uploads.
	RouteFiles
	RouteBatches
	RouteFineTuning
	RouteVectorStores
	RouteRealtime

	// DefaultRoutes are granted where a policy says nothing.
	DefaultRoutes = RouteInference | RouteModels
)

var routeNames = []string{"inference", "models", "responses", "files", "batches", "fine_tuning", "vector_stores", "realtime"}

// Has reports whether all of o are granted.
func (r Routes) Has(o Routes) bool { return r&o == o }

// String lists the names.
func (r Routes) String() string {
	var names []string
	for i, name := range routeNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// readRoutes reads a list of groups of routes. A refused entry grants nothing, and the list counts as refused.
func readRoutes(v value) Routes {
	list, ok := v.Items()
	if ok && len(list) == 0 {
		v.Problem("is empty and grants nothing; list routes, or remove the key to grant %s", DefaultRoutes)
	}
	var all Routes
	for _, it := range list {
		one := readRoute(it)
		if one == 0 {
			v.Report.Refused[v.Path] = true
		}
		if one != 0 && all.Has(one) {
			it.Problem("%s is listed twice; remove one", one)
		}
		all |= one
	}
	return all
}

func readRoute(v value) Routes {
	text, ok := v.Scalar()
	if !ok {
		return 0
	}
	i := slices.Index(routeNames, text)
	if i < 0 {
		v.Problem("%s is not a group of routes; %s", v.Say(text), strictyaml.AdviseWord(text, routeNames))
		return 0
	}
	return 1 << i
}
