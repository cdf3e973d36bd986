package route

import (
	"net/http"
	"strings"

	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/tenants"
)

const (
	get    = http.MethodGet
	post   = http.MethodPost
	remove = http.MethodDelete
)

var pageKeys = []string{"after", "before", "limit", "order"}

// objectRoutes are the routes to objects that an upstream keeps. Nothing is matched by a prefix: an account
// has routes that would lead around the gateway, and new ones every year.
var objectRoutes = []*Route{
	{Method: get, Route: dialect.Route{Path: "/responses/{response}", Body: dialect.None}, Grant: tenants.RouteResponses, Shows: objects.Response, Query: []string{"include", "include[]"}},
	{Method: remove, Route: dialect.Route{Path: "/responses/{response}", Body: dialect.None}, Grant: tenants.RouteResponses, Forgets: true},
	{Method: post, Route: dialect.Route{Path: "/responses/{response}/cancel", Body: dialect.None}, Grant: tenants.RouteResponses, Shows: objects.Response},
	{Method: get, Route: dialect.Route{Path: "/responses/{response}/input_items", Body: dialect.None}, Grant: tenants.RouteResponses, Query: append([]string{"include", "include[]"}, pageKeys...)},

	{Method: post, Route: dialect.Route{Path: "/files", Body: dialect.Form}, Grant: tenants.RouteFiles, Shows: objects.File, Makes: true},
	{Method: get, Route: dialect.Route{Path: "/files", Body: dialect.None}, Grant: tenants.RouteFiles, Shows: objects.File, List: true, Query: append([]string{"purpose"}, pageKeys...)},
	{Method: get, Route: dialect.Route{Path: "/files/{file}", Body: dialect.None}, Grant: tenants.RouteFiles, Shows: objects.File},
	{Method: remove, Route: dialect.Route{Path: "/files/{file}", Body: dialect.None}, Grant: tenants.RouteFiles, Forgets: true},
	{Method: get, Route: dialect.Route{Path: "/files/{file}/content", Body: dialect.None}, Grant: tenants.RouteFiles},
	{Method: post, Route: dialect.Route{Path: "/uploads"}, Grant: tenants.RouteFiles, Shows: objects.Upload, Makes: true},
	{Method: post, Route: dialect.Route{Path: "/uploads/{upload}/parts", Body: dialect.Form}, Grant: tenants.RouteFiles, Shows: objects.Part, Makes: true},
	{Method: post, Route: dialect.Route{Path: "/uploads/{upload}/complete"}, Grant: tenants.RouteFiles, Shows: objects.Upload},
	{Method: post, Route: dialect.Route{Path: "/uploads/{upload}/cancel", Body: dialect.None}, Grant: tenants.RouteFiles, Shows: objects.Upload},

	{Method: post, Route: dialect.Route{Path: "/batches"}, Grant: tenants.RouteBatches, Shows: objects.Batch, Makes: true},
	{Method: get, Route: dialect.Route{Path: "/batches", Body: dialect.None}, Grant: tenants.RouteBatches, Shows: objects.Batch, List: true, Query: pageKeys},
	{Method: get, Route: dialect.Route{Path: "/batches/{batch}", Body: dialect.None}, Grant: tenants.RouteBatches, Shows: objects.Batch},
	{Method: post, Route: dialect.Route{Path: "/batches/{batch}/cancel", Body: dialect.None}, Grant: tenants.RouteBatches, Shows: objects.Batch},

	{Method: post, Route: dialect.Route{Path: "/fine_tuning/jobs"}, Grant: tenants.RouteFineTuning, Shows: objects.Job, Makes: true},
	{Method: get, Route: dialect.Route{Path: "/fine_tuning/jobs", Body: dialect.None}, Grant: tenants.RouteFineTuning, Shows: objects.Job, List: true, Query: append([]string{"metadata"}, pageKeys...)},
	{Method: get, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}", Body: dialect.None}, Grant: tenants.RouteFineTuning, Shows: objects.Job},
	{Method: post, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}/cancel", Body: dialect.None}, Grant: tenants.RouteFineTuning, Shows: objects.Job},
	{Method: post, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}/pause", Body: dialect.None}, Grant: tenants.RouteFineTuning, Shows: objects.Job},
	{Method: post, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}/resume", Body: dialect.None}, Grant: tenants.RouteFineTuning, Shows: objects.Job},
	{Method: get, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}/events", Body: dialect.None}, Grant: tenants.RouteFineTuning, Query: pageKeys},
	{Method: get, Route: dialect.Route{Path: "/fine_tuning/jobs/{job}/checkpoints", Body: dialect.None}, Grant: tenants.RouteFineTuning, Shows: objects.Model, Query: pageKeys},

	{Method: post, Route: dialect.Route{Path: "/vector_stores"}, Grant: tenants.RouteVectorStores, Shows: objects.VectorStore, Makes: true},
	{Method: get, Route: dialect.Route{Path: "/vector_stores", Body: dialect.None}, Grant: tenants.RouteVectorStores, Shows: objects.VectorStore, List: true, Query: pageKeys},
	{Method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}", Body: dialect.None}, Grant: tenants.RouteVectorStores},
	{Method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}"}, Grant: tenants.RouteVectorStores},
	{Method: remove, Route: dialect.Route{Path: "/vector_stores/{vector_store}", Body: dialect.None}, Grant: tenants.RouteVectorStores, Forgets: true},
	{Method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}/search"}, Grant: tenants.RouteVectorStores},
	{Method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files"}, Grant: tenants.RouteVectorStores},
	{Method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files", Body: dialect.None}, Grant: tenants.RouteVectorStores, Query: append([]string{"filter"}, pageKeys...)},
	{Method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files/{file}", Body: dialect.None}, Grant: tenants.RouteVectorStores},
	{Method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files/{file}"}, Grant: tenants.RouteVectorStores},
	{Method: remove, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files/{file}", Body: dialect.None}, Grant: tenants.RouteVectorStores},
	{Method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}/files/{file}/content", Body: dialect.None}, Grant: tenants.RouteVectorStores},
	{Method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}/file_batches"}, Grant: tenants.RouteVectorStores, Shows: objects.FileBatch, Makes: true},
	{Method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}/file_batches/{file_batch}", Body: dialect.None}, Grant: tenants.RouteVectorStores},
	{Method: post, Route: dialect.Route{Path: "/vector_stores/{vector_store}/file_batches/{file_batch}/cancel", Body: dialect.None}, Grant: tenants.RouteVectorStores},
	{Method: get, Route: dialect.Route{Path: "/vector_stores/{vector_store}/file_batches/{file_batch}/files", Body: dialect.None}, Grant: tenants.RouteVectorStores, Query: append([]string{"filter"}, pageKeys...)},

	{Method: get, Route: dialect.Route{Path: "/realtime", Body: dialect.None}, Grant: tenants.RouteRealtime, Realtime: true, Query: []string{"model"}},
}

// shape is the elements of a path, and the routes that have it, by method.
type shape struct {
	elements []string
	methods  map[string]*Route
}

// shapes are those of objectRoutes, by their number of elements.
var shapes = func() (m [8][]*shape) {
	byPath := map[string]*shape{}
	for _, r := range objectRoutes {
		r.Name = "/v1" + r.Path
		r.Dialect = dialect.OpenAI
		s := byPath[r.Path]
		if s == nil {
			s = &shape{strings.Split(r.Path[1:], "/"), map[string]*Route{}}
			byPath[r.Path] = s
			m[len(s.elements)] = append(m[len(s.elements)], s)
		}
		s.methods[r.Method] = r
	}
	return m
}()

// findObject finds the route to objects whose shape a path has.
func findObject(method, path string) Place {
	n := strings.Count(path, "/")
	if n == 0 || n >= len(shapes) || path[0] != '/' {
		return Place{Wrong: true}
	}
	elements := strings.Split(path[1:], "/")
	for _, s := range shapes[n] {
		if ids, ok := s.match(elements); ok {
			r := s.methods[method]
			return Place{Route: r, Path: path, IDs: ids, Wrong: r == nil}
		}
	}
	return Place{Wrong: true}
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

// ToObjects lists the routes that policies grant beyond inference and models, as "GET /files/{file}", below
// /v1.
func ToObjects() []string {
	var list []string
	for _, r := range objectRoutes {
		list = append(list, r.Method+" "+r.Path)
	}
	return list
}
