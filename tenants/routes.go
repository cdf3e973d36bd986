package tenants

import "strings"

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
