package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/connections"
	"github.com/llmgov/llmgov/internal/sampled"
)

// AdminOptions say what the admin side shows beyond the gateway's own state.
type AdminOptions struct {
	// Token guards everything but /livez, /readyz and the console's page. Without one, requests
	// must be addressed to this machine by a name of its own, which is fit for a loopback listener
	// only.
	Token string
	// Version, Node and Region are shown as they are.
	Version, Node, Region string
	// Drain begins a graceful shutdown.
	Drain func()
	// Ready returns why no calls can be admitted, if so; nil means that they always can.
	Ready func() error
	// Policies follows the policy files; nil if there are none.
	Policies Policies
	// Sharing tells how a pool's limits are shared with other gateways, from memory. It returns nil
	// if they are not.
	Sharing func(pool string) *adminapi.Sharing
	// Console answers below /console/; nil if there is none. It holds nothing but the page itself,
	// and needs no token.
	Console http.Handler
	// Closing ends the streams of events when it is closed; nil never does.
	Closing <-chan struct{}
}

// Admin returns the handler of the admin listener.
func (g *Gateway) Admin(opt AdminOptions) http.Handler {
	guarded := http.NewServeMux()
	guarded.Handle("GET /metrics", g.metrics.Handler())
	guarded.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]string{"version": opt.Version})
	})
	guarded.HandleFunc("GET /api/v1/snapshot", func(w http.ResponseWriter, _ *http.Request) { respond(w, g.snapshotView(opt)) })
	guarded.HandleFunc("GET /api/v1/tenants", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, adminapi.TenantList{Tenants: g.tenantViews()})
	})
	guarded.HandleFunc("GET /api/v1/fairness", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, adminapi.FairnessList{Pools: g.fairnessViews()})
	})
	guarded.HandleFunc("GET /api/v1/history", answering(g.historyOf))
	guarded.HandleFunc("GET /api/v1/policy", func(w http.ResponseWriter, _ *http.Request) { respond(w, g.policyView()) })
	guarded.HandleFunc("GET /api/v1/leases", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, adminapi.LeaseList{Leases: leaseViews(g.gov.State())})
	})
	guarded.HandleFunc("POST /api/v1/reload", func(w http.ResponseWriter, r *http.Request) { g.reload(w, r, opt.Policies) })
	guarded.HandleFunc("POST /api/v1/drain", func(w http.ResponseWriter, r *http.Request) {
		g.audit(r, "drain")
		w.WriteHeader(http.StatusAccepted)
		_ = http.NewResponseController(w).Flush() // the drain may end this connection
		opt.Drain()
	})
	guarded.HandleFunc("GET /api/v1/explain", answering(g.explain))
	if g.events != nil {
		guarded.HandleFunc("GET /api/v1/events", answering(func(w http.ResponseWriter, r *http.Request) error {
			return g.followEvents(w, r, opt.Closing)
		}))
	}
	g.handleKeys(guarded, opt)
	if opt.Token != "" {
		guarded.HandleFunc("GET /debug/pprof/", pprof.Index)
		guarded.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		guarded.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		guarded.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", g.live)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if g.gov.Draining() {
			http.Error(w, "draining", http.StatusServiceUnavailable)
			return
		}
		if opt.Ready != nil {
			if err := opt.Ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	if opt.Console != nil {
		mux.Handle("GET /console/", opt.Console)
		mux.Handle("GET /{$}", http.RedirectHandler("/console/", http.StatusFound))
	}
	mux.Handle("/", g.withToken(opt.Token, guarded))
	// A web page elsewhere must not be able to drain a gateway on its reader's machine.
	return crashing(inTime(http.NewCrossOriginProtection().Handler(mux)))
}

// adminBodyTimeout is how long a client of the admin side may take to send a body, which is small.
const adminBodyTimeout = 10 * time.Second

// inTime bounds the time for a request's body, also for one that nobody reads: net/http does.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(adminBodyTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// withToken demands the admin token, as a bearer token. If there is none, it demands that the
// request is addressed to this machine by a name of its own: a page elsewhere can make its own name
// lead here, but cannot call itself localhost.
func (g *Gateway) withToken(token string, next http.Handler) http.Handler {
	if token == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !loopback(r.Host) {
				http.Error(w, "without an admin token, call this listener as localhost or by its loopback address", http.StatusForbidden)
				return
			}
			connections.Known(r.Context())
			next.ServeHTTP(w, by(actorLoopback, r))
		})
	}
	wrong := sampled.Gate{Every: time.Minute, Most: 5}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(bearer(r.Header)))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="llmgov admin"`)
			http.Error(w, "the admin token is missing or wrong", http.StatusUnauthorized)
			if unlogged, ok := wrong.Pass(time.Now()); ok {
				g.log.Warn("admin token missing or wrong", "remote", r.RemoteAddr, "method", brief(r.Method), "path", brief(r.URL.Path), "unlogged", unlogged)
			}
			return
		}
		connections.Known(r.Context())
		next.ServeHTTP(w, by(actorToken, r))
	})
}

func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v)
}
