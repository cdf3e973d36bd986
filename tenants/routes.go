package tenants

import (
	"slices"
	"strings"
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

var routeNames = words[string]{"a group of routes", []string{"inference", "models", "responses", "files", "batches", "fine_tuning", "vector_stores", "realtime"}}

// Has reports whether all of o are granted.
func (r Routes) Has(o Routes) bool { return r&o == o }

// String lists the names.
func (r Routes) String() string {
	var names []string
	for i, name := range routeNames.list {
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
		i := slices.Index(routeNames.list, routeNames.read(it, ""))
		switch {
		case i < 0:
			v.Report.Refused[v.Path] = true
		case all.Has(1 << i):
			it.Problem("%s is listed twice; remove one", Routes(1<<i))
		default:
			all |= 1 << i
		}
	}
	return all
}
