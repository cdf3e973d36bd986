package gateway

import (
	"net/http"
	"strings"
)

// dialect is how a route's callers want to be spoken to.
type dialect int

const (
	openAI dialect = iota
	anthropic
)

// bodyKind is how a route's body carries the model.
type bodyKind int

const (
	jsonBody bodyKind = iota
	formBody          // multipart/form-data
)

// route is one inference route. All are governed.
type route struct {
	path    string // below /v1
	dialect dialect
	body    bodyKind
	// bounds are the route's names for the bound on an answer's length, that to be
	// added first; none where no tokens are produced. What other routes call it
	// bounds nothing here.
	bounds []bound
	// chunked routes have the extra usage chunk of stream_options.
	chunked bool
	// anyModel routes may leave the model out; the tenant's default pool serves it.
	anyModel bool
}

var routes = func() map[string]*route {
	m := map[string]*route{}
	for _, r := range []route{
		{path: "/chat/completions", bounds: []bound{maxCompletionTokens, maxTokens}, chunked: true},
		{path: "/completions", bounds: []bound{maxTokens}, chunked: true},
		{path: "/responses", bounds: []bound{maxOutputTokens}},
		{path: "/embeddings"},
		{path: "/moderations", anyModel: true},
		{path: "/images/generations", anyModel: true},
		{path: "/images/edits", anyModel: true, body: formBody},
		{path: "/images/variations", anyModel: true, body: formBody},
		{path: "/audio/speech"},
		{path: "/audio/transcriptions", body: formBody},
		{path: "/audio/translations", body: formBody},
		{path: "/messages", bounds: []bound{maxTokens}, dialect: anthropic},
		{path: "/messages/count_tokens", dialect: anthropic},
	} {
		m[r.path] = &r
	}
	return m
}()

// grantable are the first path elements of routes that a tenant may be granted
// and by default is not.
var grantable = map[string]bool{
	"responses": true, "files": true, "uploads": true, "batches": true,
	"fine_tuning": true, "vector_stores": true, "realtime": true,
}

// place is what a request's path and method name.
type place struct {
	route     *route // an inference route; set also when only the method is wrong
	wrong     bool   // there is no such place, or not with this method
	models    bool
	usage     bool
	ungranted bool
}

// find names the place that a request is for.
func find(r *http.Request) place {
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	if route := routes[path]; route != nil && (r.Method == http.MethodPost || !grantable[strings.TrimPrefix(path, "/")]) {
		return place{route: route, wrong: r.Method != http.MethodPost}
	}
	if (path == "/models" || strings.HasPrefix(path, "/models/")) && r.Method == http.MethodGet {
		return place{models: true}
	}
	if path == "/usage" && r.Method == http.MethodGet {
		return place{usage: true}
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if grantable[first] {
		return place{ungranted: true}
	}
	return place{wrong: true}
}
