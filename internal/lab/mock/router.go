package mock

import (
	"net/http"
	"strings"
)

// ServeHTTP answers one request. To hang up it panics with http.ErrAbortHandler, which
// net/http understands; other callers must too.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		if rt := routeOf(r.URL.Path); rt != routeNone {
			s.serveCall(w, r, rt)
			return
		}
	}
	s.serveOther(w, r)
}

// serveOther answers requests that are no calls to a model.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	id, isModel := strings.CutPrefix(path, "/models/")
	switch {
	case path == "/_stats" && r.Method == http.MethodGet:
		s.writeStats(w)
	case path == "/_stats/reset" && r.Method == http.MethodPost:
		s.ResetStats()
		s.writeStats(w)
	case path == "/metrics" && r.Method == http.MethodGet:
		s.writeMetrics(w)
	case !s.authorised(r):
		s.writePlain(w, 401, unauthorised(r).append(nil))
	case path == "/models" && r.Method == http.MethodGet:
		s.writePlain(w, 200, s.models)
	case isModel && id != "" && r.Method == http.MethodGet:
		s.writePlain(w, 200, appendModel(nil, id))
	case s.serveMedia(w, r, path):
	case path == "/realtime" && r.Method == http.MethodGet:
		s.serveRealtime(w, r)
	case s.serveObjects(w, r, path):
	default:
		e := badRequest("", "Unknown request URL: "+r.Method+" "+r.URL.Path+". Please check the URL for typos.")
		e.status = 404
		e.code = "unknown_url"
		s.writePlain(w, e.status, e.append(nil))
	}
}
