package gateway

import (
	"net/http"
	"strings"

	"github.com/llmgov/llmgov/internal/gateway/dialect"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/tenants"
)

// route is one route to an upstream. All are governed.
type route struct {
	dialect.Route // of an object it has a path, with elements such as {file} in place of ids, and a body
	dialect       *dialect.Dialect
	method        string // "" is POST
	name          string // the path with /v1, for logs and spans
	grant         tenants.Routes

	// What follows is for routes to objects, that is for all that are not inference.

	// shows is the kind of object that the answer is, or lists.
	shows objects.Kind
	// An answer of 2xx means that the object was made, or is gone.
	makes, forgets bool
	list           bool     // of all the account's objects of a kind; it is filtered
	query          []string // the keys that a query may have
	realtime       bool     // a websocket
}

// toObjects reports whether the route is one to objects, which takes no tokens.
func (r *route) toObjects() bool { return r.grant != tenants.RouteInference }

// routes are those of inference, by their paths.
var routes = func() map[string]*route {
	m := map[string]*route{}
	for _, d := range dialect.All {
		for _, r := range d.Routes {
			m[r.Path] = &route{Route: r, dialect: d, name: "/v1" + r.Path, grant: tenants.RouteInference}
		}
	}
	return m
}()

// place is what the method and path of a request name.
type place struct {
	route *route   // even if only the method is wrong
	path  string   // below /v1, as the upstream gets it
	ids   []string // in the path
	wrong bool     // there is no such route, or not with this method
	// azure places are those that Azure's SDKs use: they begin with /openai and have an api-version
	// in the query. Some name the model as a deployment.
	azure      bool
	deployment string
	models     bool
	usage      bool
}

// grant is what a tenant must be granted to use the place.
func (p *place) grant() tenants.Routes {
	switch {
	case p.models:
		return tenants.RouteModels
	case p.usage:
		return 0 // every tenant may see its own
	}
	return p.route.grant
}

// find finds the place that a request is for.
func find(r *http.Request) place {
	if rest, ok := strings.CutPrefix(r.URL.Path, "/openai/"); ok {
		return findAzure(r, rest)
	}
	return findBelow(r, strings.TrimPrefix(r.URL.Path, "/v1"))
}

// findAzure finds a place by the path that Azure's SDKs use, given what follows /openai/.
func findAzure(r *http.Request, rest string) place {
	if r.URL.RawPath != "" {
		return place{wrong: true}
	}
	if behind, ok := strings.CutPrefix(rest, "deployments/"); ok {
		model, path, _ := strings.Cut(behind, "/")
		route := routes["/"+path]
		if route == nil || model == "" {
			return place{wrong: true}
		}
		return place{route: route, path: "/" + path, wrong: r.Method != http.MethodPost, azure: true, deployment: model}
	}
	at := findBelow(r, "/"+strings.TrimPrefix(rest, "v1/"))
	at.azure = true
	return at
}

// findBelow finds a place by the path below /v1.
func findBelow(r *http.Request, path string) place {
	if (path == "/models" || strings.HasPrefix(path, "/models/")) && r.Method == http.MethodGet {
		return place{models: true}
	}
	if path == "/usage" && r.Method == http.MethodGet {
		return place{usage: true}
	}
	if route := routes[path]; route != nil {
		return place{route: route, path: path, wrong: r.Method != http.MethodPost}
	}
	if r.URL.RawPath != "" { // what is encoded is read differently by different servers
		return place{wrong: true}
	}
	return findObject(r.Method, path)
}
