package mock

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lab/mock/batch"
)

// Server is a simulated model server. It is an http.Handler, and safe for concurrent use. It
// has no goroutines of its own and needs no closing.
//
// Besides PromptTokens it counts content to which a prompt refers: the tokens of the response that
// previous_response_id names, files by their ids as text, and 1000 tokens for a stored prompt and
// for each tool that a provider runs.
type Server struct {
	cfg      Config
	models   []byte // body of GET /v1/models
	books    books
	account  account
	prefixes prefixes
	batch    *batch.Batch  // nil if it does not batch
	seq      atomic.Uint64 // number of the last call
	asides   atomic.Uint64 // number of the last request that was no call; separate, so that it shifts no draw
}

// New returns a Server for cfg, or every problem of cfg.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	s.books.accounting = cfg.Accounting
	s.books.limits = [axes]int64{axisRequests: cfg.RPM, axisTokens: cfg.TPM, axisInput: cfg.ITPM, axisOutput: cfg.OTPM}
	for k, limit := range s.books.limits {
		switch cfg.Minute {
		case Fixed, Azure, AzureSecond:
			s.books.windows[k].fixed = minute
		case Bucket:
			s.books.windows[k].fill = limit
		}
	}
	if short := map[string]time.Duration{Azure: 10 * time.Second, AzureSecond: time.Second}[cfg.Minute]; short > 0 {
		s.books.windows[axisRequests].fixed = short
		s.books.limits[axisRequests] = max(min(cfg.RPM, 1), cfg.RPM/int64(minute/short)) // 0 is off
	}
	s.books.slotLimit = int64(cfg.Slots)
	s.books.start = time.Now()
	if cfg.Batch > 0 || cfg.KVCache > 0 {
		s.batch = batch.New(cfg.Batch, cfg.KVCache)
	}
	s.prefixes.most = int(cfg.PrefixCache / blockTokens)
	s.models = appendModels(nil, cfg.Models)
	return s, nil
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
	_ = json.NewEncoder(w).Encode(s.Stats()) // an error means that the client has left
}

// authorised reports whether r has the key, if one is required.
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

// modelsCreated has the creation time of all models: plausible, and constant.
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
