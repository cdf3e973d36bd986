package gateway

import (
	"net/http"
	"strings"

	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/gateway/head"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/tenants"
)

// dialect is how the callers of a route expect to be answered.
type dialect int

const (
	openAI          dialect = iota
	openAIResponses         // as openAI, but for its streams of typed events
	anthropic
)

// bodyKind is how the body of a route carries the model.
type bodyKind int

const (
	jsonBody bodyKind = iota
	formBody          // multipart/form-data
	noBody            // none, or one that says nothing
)

// route is one route to an upstream. All are governed.
type route struct {
	method  string // "" is POST
	path    string // below /v1; an element such as {file} stands for an id
	name    string // the same with it, for logs and spans
	grant   tenants.Routes
	dialect dialect
	body    bodyKind
	// bounds are the route's names for the bound on the length of an answer, the one to add first;
	// none if no tokens are produced, or on open routes. Names that only other routes have bound nothing here.
	bounds []head.Bound
	// chunked routes have stream_options, and its extra usage chunk.
	chunked bool
	// open routes produce tokens, and nothing in a call bounds how many.
	open bool
	// files is what the files of a form are.
	files tokens.Kind
	// free routes take no tokens: they only count them.
	free bool
	// anyModel routes do not require a model; without one the tenant's default pool serves them.
	anyModel bool

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

var routes = func() map[string]*route {
	m := map[string]*route{}
	for _, r := range []route{
		{path: "/chat/completions", bounds: []head.Bound{head.MaxCompletionTokens, head.MaxTokens}, chunked: true},
		{path: "/completions", bounds: []head.Bound{head.MaxTokens}, chunked: true},
		{path: "/responses", bounds: []head.Bound{head.MaxOutputTokens}, dialect: openAIResponses},
		{path: "/embeddings"},
		{path: "/moderations", anyModel: true},
		{path: imagesPath, anyModel: true, open: true},
		{path: "/images/edits", anyModel: true, body: formBody, files: tokens.Image, open: true},
		{path: "/images/variations", anyModel: true, body: formBody, files: tokens.Image, open: true},
		{path: "/audio/speech", open: true},
		{path: "/audio/transcriptions", body: formBody, files: tokens.Sound, open: true},
		{path: "/audio/translations", body: formBody, files: tokens.Sound, open: true},
		{path: "/messages", bounds: []head.Bound{head.MaxTokens}, dialect: anthropic},
		{path: "/messages/count_tokens", dialect: anthropic, free: true},
	} {
		r.grant = tenants.RouteInference
		r.name = "/v1" + r.path
		m[r.path] = &r
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

// apiVersionKey is what every call of Azure's SDKs has in its query.
const apiVersionKey = "api-version"

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
