package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strings"

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
	{method: get, path: "/responses/{response}", grant: tenants.RouteResponses, body: noBody, shows: objects.Response, query: []string{"include", "include[]"}},
	{method: remove, path: "/responses/{response}", grant: tenants.RouteResponses, body: noBody, forgets: true},
	{method: post, path: "/responses/{response}/cancel", grant: tenants.RouteResponses, body: noBody, shows: objects.Response},
	{method: get, path: "/responses/{response}/input_items", grant: tenants.RouteResponses, body: noBody, query: append([]string{"include", "include[]"}, pageKeys...)},

	{method: post, path: "/files", grant: tenants.RouteFiles, body: formBody, shows: objects.File, makes: true},
	{method: get, path: "/files", grant: tenants.RouteFiles, body: noBody, shows: objects.File, list: true, query: append([]string{"purpose"}, pageKeys...)},
	{method: get, path: "/files/{file}", grant: tenants.RouteFiles, body: noBody, shows: objects.File},
	{method: remove, path: "/files/{file}", grant: tenants.RouteFiles, body: noBody, forgets: true},
	{method: get, path: "/files/{file}/content", grant: tenants.RouteFiles, body: noBody},
	{method: post, path: "/uploads", grant: tenants.RouteFiles, shows: objects.Upload, makes: true},
	{method: post, path: "/uploads/{upload}/parts", grant: tenants.RouteFiles, body: formBody, shows: objects.Part, makes: true},
	{method: post, path: "/uploads/{upload}/complete", grant: tenants.RouteFiles, shows: objects.Upload},
	{method: post, path: "/uploads/{upload}/cancel", grant: tenants.RouteFiles, body: noBody, shows: objects.Upload},

	{method: post, path: "/batches", grant: tenants.RouteBatches, shows: objects.Batch, makes: true},
	{method: get, path: "/batches", grant: tenants.RouteBatches, body: noBody, shows: objects.Batch, list: true, query: pageKeys},
	{method: get, path: "/batches/{batch}", grant: tenants.RouteBatches, body: noBody, shows: objects.Batch},
	{method: post, path: "/batches/{batch}/cancel", grant: tenants.RouteBatches, body: noBody, shows: objects.Batch},

	{method: post, path: "/fine_tuning/jobs", grant: tenants.RouteFineTuning, shows: objects.Job, makes: true},
	{method: get, path: "/fine_tuning/jobs", grant: tenants.RouteFineTuning, body: noBody, shows: objects.Job, list: true, query: append([]string{"metadata"}, pageKeys...)},
	{method: get, path: "/fine_tuning/jobs/{job}", grant: tenants.RouteFineTuning, body: noBody, shows: objects.Job},
	{method: post, path: "/fine_tuning/jobs/{job}/cancel", grant: tenants.RouteFineTuning, body: noBody, shows: objects.Job},
	{method: post, path: "/fine_tuning/jobs/{job}/pause", grant: tenants.RouteFineTuning, body: noBody, shows: objects.Job},
	{method: post, path: "/fine_tuning/jobs/{job}/resume", grant: tenants.RouteFineTuning, body: noBody, shows: objects.Job},
	{method: get, path: "/fine_tuning/jobs/{job}/events", grant: tenants.RouteFineTuning, body: noBody, query: pageKeys},
	{method: get, path: "/fine_tuning/jobs/{job}/checkpoints", grant: tenants.RouteFineTuning, body: noBody, shows: objects.Model, query: pageKeys},

	{method: post, path: "/vector_stores", grant: tenants.RouteVectorStores, shows: objects.VectorStore, makes: true},
	{method: get, path: "/vector_stores", grant: tenants.RouteVectorStores, body: noBody, shows: objects.VectorStore, list: true, query: pageKeys},
	{method: get, path: "/vector_stores/{vector_store}", grant: tenants.RouteVectorStores, body: noBody},
	{method: post, path: "/vector_stores/{vector_store}", grant: tenants.RouteVectorStores},
	{method: remove, path: "/vector_stores/{vector_store}", grant: tenants.RouteVectorStores, body: noBody, forgets: true},
	{method: post, path: "/vector_stores/{vector_store}/search", grant: tenants.RouteVectorStores},
	{method: post, path: "/vector_stores/{vector_store}/files", grant: tenants.RouteVectorStores},
	{method: get, path: "/vector_stores/{vector_store}/files", grant: tenants.RouteVectorStores, body: noBody, query: append([]string{"filter"}, pageKeys...)},
	{method: get, path: "/vector_stores/{vector_store}/files/{file}", grant: tenants.RouteVectorStores, body: noBody},
	{method: post, path: "/vector_stores/{vector_store}/files/{file}", grant: tenants.RouteVectorStores},
	{method: remove, path: "/vector_stores/{vector_store}/files/{file}", grant: tenants.RouteVectorStores, body: noBody},
	{method: get, path: "/vector_stores/{vector_store}/files/{file}/content", grant: tenants.RouteVectorStores, body: noBody},
	{method: post, path: "/vector_stores/{vector_store}/file_batches", grant: tenants.RouteVectorStores, shows: objects.FileBatch, makes: true},
	{method: get, path: "/vector_stores/{vector_store}/file_batches/{file_batch}", grant: tenants.RouteVectorStores, body: noBody},
	{method: post, path: "/vector_stores/{vector_store}/file_batches/{file_batch}/cancel", grant: tenants.RouteVectorStores, body: noBody},
	{method: get, path: "/vector_stores/{vector_store}/file_batches/{file_batch}/files", grant: tenants.RouteVectorStores, body: noBody, query: append([]string{"filter"}, pageKeys...)},

	{method: get, path: "/realtime", grant: tenants.RouteRealtime, body: noBody, realtime: true, query: []string{"model"}},
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
		r.name = "/v1" + r.path
		s := byPath[r.path]
		if s == nil {
			s = &shape{strings.Split(r.path[1:], "/"), map[string]*route{}}
			byPath[r.path] = s
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
		list = append(list, r.method+" "+r.path)
	}
	return list
}

// InferenceRoutes lists the routes that call models, as "/chat/completions", below /v1.
func InferenceRoutes() []string { return slices.Sorted(maps.Keys(routes)) }
