// Package route finds the route of a request: one of inference, which the dialects have, or one to objects that
// an upstream keeps. Nothing is matched by a prefix.
package route

import (
	"net/http"
	"strings"

	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/tenants"
)

// Route is a route to an upstream. All are governed.
type Route struct {
	dialect.Route // of an object it has a path, with elements such as {file} in place of ids, and a body
	Dialect       *dialect.Dialect
	Method        string // "" is POST
	Name          string // the path with /v1, for logs and spans
	Grant         tenants.Routes

	// The following fields are for routes to objects, that is for all that are not inference.

	// Shows is the kind of object that the answer is, or lists.
	Shows objects.Kind
	// An answer of 2xx means that the object was made, or is gone.
	Makes, Forgets bool
	List           bool     // of all the account's objects of a kind; it is filtered
	Query          []string // the keys that a query may have
	Realtime       bool     // a websocket
}

// ToObjects reports whether the route is one to objects, which takes no tokens.
func (r *Route) ToObjects() bool { return r.Grant != tenants.RouteInference }

// inference are the routes of inference, by their paths.
var inference = func() map[string]*Route {
	m := map[string]*Route{}
	for _, d := range dialect.All {
		for _, r := range d.Routes {
			m[r.Path] = &Route{Route: r, Dialect: d, Name: "/v1" + r.Path, Grant: tenants.RouteInference}
		}
	}
	return m
}()

// Inference finds a route of inference by its url, with or without /v1; nil if there is none.
func Inference(url string) *Route { return inference[strings.TrimPrefix(url, "/v1")] }

// Place is the resource that the method and path of a request name.
type Place struct {
	Route *Route   // even if only the method is wrong
	Path  string   // below /v1, as the upstream gets it
	IDs   []string // in the path
	Wrong bool     // there is no such route, or not with this method
	// Azure places are those that Azure's SDKs use: they begin with /openai and have an api-version
	// in the query. Some name the model as a deployment.
	Azure      bool
	Deployment string
	Models     bool
	Usage      bool
}

// Grant is the group of routes that a tenant must be granted to use the place.
func (p *Place) Grant() tenants.Routes {
	switch {
	case p.Models:
		return tenants.RouteModels
	case p.Usage:
		return 0 // every tenant may see its own
	}
	return p.Route.Grant
}

// Name is the place as its route has it, without the texts that a caller put into the path; "" if there is none.
func (p *Place) Name() string {
	switch {
	case p.Models:
		return "/v1/models"
	case p.Usage:
		return "/v1/usage"
	case p.Wrong:
		return ""
	}
	return p.Route.Name
}

// Find finds the place that a request is for. Slashes that clients write twice or at the end, and a second /v1, because their base URL ends
// in one, do not matter, but on routes to objects, where an id could be missing between them.
func Find(r *http.Request) Place {
	path := tidy(r.URL.Path)
	at := find(r, path)
	if at.Route != nil && at.Route.ToObjects() && path != r.URL.Path {
		return Place{Wrong: true}
	}
	return at
}

func find(r *http.Request, path string) Place {
	if rest, ok := strings.CutPrefix(path, "/openai/"); ok {
		return findAzure(r, rest)
	}
	if path == "/v2/rerank" { // Cohere's, with the body of /v1/rerank
		path = "/rerank"
	}
	return findBelow(r, strings.TrimPrefix(path, "/v1"))
}

// tidy is a path without slashes and a second /v1 that say nothing.
func tidy(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	if again, ok := strings.CutPrefix(path, "/v1/v1/"); ok {
		path = "/v1/" + again
	}
	return path
}

// findAzure finds a place by the path that Azure's SDKs use, given the part behind /openai/.
func findAzure(r *http.Request, rest string) Place {
	if r.URL.RawPath != "" {
		return Place{Wrong: true}
	}
	if behind, ok := strings.CutPrefix(rest, "deployments/"); ok {
		model, path, _ := strings.Cut(behind, "/")
		route := inference["/"+path]
		if route == nil || model == "" {
			return Place{Wrong: true}
		}
		return Place{Route: route, Path: "/" + path, Wrong: r.Method != http.MethodPost, Azure: true, Deployment: model}
	}
	at := findBelow(r, "/"+strings.TrimPrefix(rest, "v1/"))
	at.Azure = true
	return at
}

// findBelow finds a place by the path below /v1.
func findBelow(r *http.Request, path string) Place {
	if (path == "/models" || strings.HasPrefix(path, "/models/")) && r.Method == http.MethodGet {
		return Place{Models: true}
	}
	if path == "/usage" && r.Method == http.MethodGet {
		return Place{Usage: true}
	}
	if route := inference[path]; route != nil {
		return Place{Route: route, Path: path, Wrong: r.Method != http.MethodPost}
	}
	if r.URL.RawPath != "" { // encoded paths are read differently by different servers
		return Place{Wrong: true}
	}
	return findObject(r.Method, path)
}
