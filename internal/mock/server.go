package mock

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// Server is a simulated model server. It is an http.Handler, and safe for concurrent use. It
// has no goroutines of its own and needs no closing.
//
// Besides PromptTokens it counts what a prompt refers to: all that the response took which
// previous_response_id names, files by their ids as text, and 1000 tokens for a stored prompt and
// for each tool that a provider runs.
type Server struct {
	cfg    Config
	models []byte // body of GET /v1/models
	books  books
	shelf  shelf
	seq    atomic.Uint64 // number of the last call
	asides atomic.Uint64 // number of the last request that was no call; kept apart, so that it shifts no draw
}

// New returns a Server for cfg, or every problem of cfg.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	s.books.accounting = cfg.Accounting
	s.books.tpm = cfg.TPM
	s.books.rpm = cfg.RPM
	s.books.slotLimit = int64(cfg.Slots)
	s.books.start = time.Now()
	s.models = appendModels(nil, cfg.Models)
	return s, nil
}

// ServeHTTP answers one request. To hang up it panics with http.ErrAbortHandler, which
// net/http understands; who calls it in another way must too.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		if rt := routeOf(r.URL.Path); rt != routeNone {
			s.serveCall(w, r, rt)
			return
		}
	}
	s.serveOther(w, r)
}

// serveOther answers all that is no call to a model.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	id, isModel := strings.CutPrefix(path, "/models/")
	switch {
	case path == "/_stats" && r.Method == http.MethodGet:
		s.writeStats(w)
	case path == "/_stats/reset" && r.Method == http.MethodPost:
		s.ResetStats()
		s.writeStats(w)
	case !s.authorised(r):
		s.writePlain(w, 401, unauthorised(r).append(nil))
	case path == "/models" && r.Method == http.MethodGet:
		s.writePlain(w, 200, s.models)
	case isModel && id != "" && r.Method == http.MethodGet:
		s.writePlain(w, 200, appendModel(nil, id))
	case s.serveMedia(w, r, path):
	case path == "/realtime" && r.Method == http.MethodGet:
		s.serveRealtime(w, r)
	case s.serveShelf(w, r, path):
	default:
		e := badRequest("", "Unknown request URL: "+r.Method+" "+r.URL.Path+". Please check the URL for typos.")
		e.status = 404
		e.code = "unknown_url"
		s.writePlain(w, e.status, e.append(nil))
	}
}

func (s *Server) writePlain(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = typeJSON
	h["Openai-Version"] = apiVersion
	h.Set("Openai-Processing-Ms", "0")
	h.Set("X-Request-Id", string(s.appendID(nil, "req_aside_", s.asides.Add(1))))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (s *Server) writeStats(w http.ResponseWriter) {
	w.Header()["Content-Type"] = typeJSON
	_ = json.NewEncoder(w).Encode(s.Stats()) // a struct of integers: only the client's going can fail
}

// authorised reports whether r bears the key, if one is asked for.
func (s *Server) authorised(r *http.Request) bool {
	if s.cfg.APIKey == "" {
		return true
	}
	return r.Header.Get("Authorization") == "Bearer "+s.cfg.APIKey || r.Header.Get("Api-Key") == s.cfg.APIKey ||
		r.Header.Get("X-Api-Key") == s.cfg.APIKey
}

func unauthorised(r *http.Request) *apiError {
	e := badRequest("", "You didn't provide an API key. You need to provide your API key in an Authorization header "+
		"using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).")
	if r.Header.Get("Authorization") != "" || r.Header.Get("Api-Key") != "" || r.Header.Get("X-Api-Key") != "" {
		e.message = "Incorrect API key provided."
		e.code = "invalid_api_key"
	}
	e.status = 401
	return e
}

// appendID writes the id of call number seq: the same in every run, different between calls,
// and between servers of different seeds.
func (s *Server) appendID(b []byte, prefix string, seq uint64) []byte {
	b = append(b, prefix...)
	b = appendHex(b, s.cfg.Seed, 8)
	return appendHex(b, seq, 12)
}

func appendHex(b []byte, x uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		b = append(b, "0123456789abcdef"[x>>(4*i)&15])
	}
	return b
}

// modelsCreated is the birthday of all models: something plausible that never changes.
const modelsCreated = `,"object":"model","created":1715367049,"owned_by":"mock"}`

func appendModel(b []byte, id string) []byte {
	b = append(b, `{"id":`...)
	b = gjson.AppendJSONString(b, id)
	return append(b, modelsCreated...)
}

func appendModels(b []byte, ids []string) []byte {
	b = append(b, `{"object":"list","data":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendModel(b, id)
	}
	return append(b, "]}"...)
}
