package harness

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/tenants"
)

// Upstream is a model server whose answers a test can replace.
type Upstream struct {
	Mock     *mock.Server
	replaced atomic.Pointer[http.HandlerFunc]
	Calls    atomic.Int64
	Keys     sync.Map
}

func (m *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.Calls.Add(1)
	m.Keys.Store(r.Header.Get("Authorization"), true)
	if h := m.replaced.Load(); h != nil {
		(*h)(w, r)
		return
	}
	m.Mock.ServeHTTP(w, r)
}

// AnswerWith replaces the answers by those of h; nil restores them.
func (m *Upstream) AnswerWith(h http.HandlerFunc) {
	if h == nil {
		m.replaced.Store(nil)
		return
	}
	m.replaced.Store(&h)
}

// NewUpstream makes an upstream that answers as the mock does.
func NewUpstream(t *testing.T, cfg mock.Config) *Upstream {
	t.Helper()
	s, err := mock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &Upstream{Mock: s}
}

// Status answers with a status; header is pairs of names and values.
func Status(status int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"message":"upstream says %d","type":"x","code":"c%d"}}`, status, status)
	}
}

// Silence does not answer.
func Silence(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client go
	<-r.Context().Done()
}

// PoolOf is a pool whose calls go to upstreams with weights, "mock" being the first.
func PoolOf(weights ...int64) tenants.Pool {
	p := Pool(0, 0, 1000)
	for i, w := range weights {
		name := "mock"
		if i > 0 {
			name = "up" + strconv.Itoa(i)
		}
		p.Upstreams = append(p.Upstreams, tenants.PoolUpstream{Name: name, Weight: w})
	}
	return p
}

// PoolAt is a pool of one upstream.
func PoolAt(name string) tenants.Pool {
	p := Pool(0, 0, 1000)
	p.Upstreams = []tenants.PoolUpstream{{Name: name, Weight: 1}}
	return p
}
