package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/gateway/dialect"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/tenants"
)

const (
	get    = http.MethodGet
	post   = http.MethodPost
	remove = http.MethodDelete
)

var pageKeys = []string{"after", "before", "limit", "order"}

// objectRoutes are the routes to what an upstream keeps. Nothing is matched by a prefix: an account
// has routes that would lead around the gateway, and new ones every year.
var objectRoutes = []*route{
	{method: get, Route: dialect.Route{Path: "/responses/{response}", Body: dialect.None}, grant: tenants.RouteResponses, shows: objects.Response, query: []string{"include", "include[]"}},
	{method: remove, Route: dialect.Route{Path: "/responses/{response}", Body: dialect.None}, grant: tenants.RouteResponses, forgets: true},
	{method: post, Route: dialect.Route{Path: "/responses/{response}/cancel", Body: dialect.None}, grant: tenants.RouteResponses, shows: objects.Response},
	{method: get, Route: dialect.Route{Path: "/responses/{response}/input_items", Body: dialect.None}, grant: tenants.RouteResponses, query: append([]string{"include", "include[]"}, pageKeys...)},

	{method: post, Route: dialect.Route{Path: "/files", Body: dialect.Form}, grant: tenants.RouteFiles, shows: objects.File, makes: true},
	{method: get, Route: dialect.Route{Path: "/files", Body: dialect.None}, grant: tenants.RouteFiles, shows: objects.File, list: true, query: append([]string{"purpose"}, pageKeys...)},
	{method: get, Route: dialect.Route{Path: "/files/{file}", Body: dialect.None}, grant: tenants.RouteFiles, shows: objects.File},
	{method: remove, Route: dialect.Route{Path: "/files/{file}", Body: dialect.None}, grant: tenants.RouteFiles, forgets: true},
	{method: get, Route: dialect.Route{Path: "/files/{file}/content", Body: dialect.None}, grant: tenants.RouteFiles},
	{method: post, Route: dialect.Route{Path: "/uploads"}, grant: tenants.RouteFiles, shows: objects.Upload, makes: true},
	{method: post, Route: dialect.Route{Path: "/uploads/{upload}/parts", Body: dialect.Form}, grant: tenants.RouteFiles, shows: objects.Part, makes: true},
	{method: post, Route: dialect.Route{Path: "/uploads/{upload}/complete"}, grant: tenants.RouteFiles, shows: objects.Upload},
	{method: post, Route: dialect.Route{Path: "/uploads/{upload}/cancel", Body: dialect.None}, grant: tenants.RouteFiles, shows: objects.Upload},

	{method: post, Route: dialect.Route{Path: "/batches"}, grant: tenants.RouteBatches, shows: objects.Batch, makes: true},
	{method: get, Route: dialect.Route{Path: "/batches", Body: dialect.None}, grant: tenants.RouteBatches, shows: objects.Batch, list: true, query: pageKeys},
	{method: get, Route: dialect.Route{Path: "/batches/{batch}", Body: dialect.None}, grant: tenants.RouteBatches, shows: objects.Batch},
	{method: post, Route: dialect.Route{Path: "/batches/{batch}/cancel", Body: dialect.None}, grant: tenants.RouteBatches, shows: objects.Batch},

	{method: post, Route: dialect.Route{Path: "/fine_tuning/jobs"}, grant: tenants.RouteFineTuning, shows: objects.Job, makes: true},
	{method: get, Route: dialect.Route{Path: "/fine_tuning/jobs", Body: dialect.None}, grant: tenants.RouteFineTuning, shows: objects.Job, list: true, query: append([]string{"metadata"}, pageKeys...)},
	{method: get, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}", Body: dialect.None}, grant: tenants.RouteFineTuning, shows: objects.Job},
	{method: post, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}/cancel", Body: dialect.None}, grant: tenants.RouteFineTuning, shows: objects.Job},
	{method: post, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}/pause", Body: dialect.None}, grant: tenants.RouteFineTuning, shows: objects.Job},
	{method: post, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}/resume", Body: dialect.None}, grant: tenants.RouteFineTuning, shows: objects.Job},
	{method: get, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}/events", Body: dialect.None}, grant: tenants.RouteFineTuning, query: pageKeys},
	{method: get, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}/checkpoints", Body: dialect.None}, grant: tenants.RouteFineTuning, shows: objects.Model, query: pageKeys},

	{method: post, Route: dialect.Route{Path: "/vector_stores"}, grant: tenants.RouteVectorStores, shows: objects.VectorStore, makes: true},
	{method: get, Route: dialect.Route{Path: "/vector_stores", Body: dialect.None}, grant: tenants.RouteVectorStores, shows: objects.VectorStore, list: true, query: pageKeys},
	{method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}", Body: dialect.None}, grant: tenants.RouteVectorStores},
	{method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}"}, grant: tenants.RouteVectorStores},
	{method: remove, Route: dialect.Route{Path: "/vector_stores/{vector_store}", Body: dialect.None}, grant: tenants.RouteVectorStores, forgets: true},
	{method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}/search"}, grant: tenants.RouteVectorStores},
	{method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files"}, grant: tenants.RouteVectorStores},
	{method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files", Body: dialect.None}, grant: tenants.RouteVectorStores, query: append([]string{"filter"}, pageKeys...)},
	{method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files/{file}", Body: dialect.None}, grant: tenants.RouteVectorStores},
	{method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files/{file}"}, grant: tenants.RouteVectorStores},
	{method: remove, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files/{file}", Body: dialect.None}, grant: tenants.RouteVectorStores},
	{method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files/{file}/content", Body: dialect.None}, grant: tenants.RouteVectorStores},
	{method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}/file_batches"}, grant: tenants.RouteVectorStores, shows: objects.FileBatch, makes: true},
	{method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}/file_batches/{file_batch}", Body: dialect.None}, grant: tenants.RouteVectorStores},
	{method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}/file_batches/{file_batch}/cancel", Body: dialect.None}, grant: tenants.RouteVectorStores},
	{method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}/file_batches/{file_batch}/files", Body: dialect.None}, grant: tenants.RouteVectorStores, query: append([]string{"filter"}, pageKeys...)},

	{method: get, Route: dialect.Route{Path: "/realtime", Body: dialect.None}, grant: tenants.RouteRealtime, realtime: true, query: []string{"model"}},
}

// shape is the elements of a path, and the routes that have it, by method.
type shape struct {
	elements []string
	methods  map[string]*route
}

// shapes are those of objectRoutes, by their number of elements.
var shapes = func() (m [8][]*shape) {
	byPath := map[string]*shape{}
	for _, r := range objectRoutes {
		r.name = "/v1" + r.Path
		r.dialect = dialect.OpenAI
		s := byPath[r.Path]
		if s == nil {
			s = &shape{strings.Split(r.Path[1:], "/"), map[string]*route{}}
			byPath[r.Path] = s
			m[len(s.elements)] = append(m[len(s.elements)], s)
		}
		s.methods[r.method] = r
	}
	return m
}()

// findObject finds the route to objects whose shape a path has.
func findObject(method, path string) place {
	n := strings.Count(path, "/")
	if n == 0 || n >= len(shapes) || path[0] != '/' {
		return place{wrong: true}
	}
	elements := strings.Split(path[1:], "/")
	for _, s := range shapes[n] {
		if ids, ok := s.match(elements); ok {
			r := s.methods[method]
			return place{route: r, path: path, ids: ids, wrong: r == nil}
		}
	}
	return place{wrong: true}
}

// match compares a path with the shape, and returns the path's elements in place of ids.
func (s *shape) match(elements []string) (ids []string, ok bool) {
	for i, e := range s.elements {
		switch {
		case e[0] != '{':
			if e != elements[i] {
				return nil, false
			}
		case !objects.IsID(elements[i]):
			return nil, false
		default:
			ids = append(ids, elements[i])
		}
	}
	return ids, true
}

// ObjectRoutes lists the routes that policies grant beyond inference and models, as
// "GET /files/{file}", below /v1.
func ObjectRoutes() []string {
	var list []string
	for _, r := range objectRoutes {
		list = append(list, r.method+" "+r.Path)
	}
	return list
}

// InferenceRoutes lists the routes that call models, as "/chat/completions", below /v1.
func InferenceRoutes() []string { return slices.Sorted(maps.Keys(routes)) }
