package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/llmgov/llmgov/internal/lib/bearer"
	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/lib/sampled"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/crash"
	"github.com/llmgov/llmgov/internal/ops/history"
	"github.com/llmgov/llmgov/internal/ops/readiness"
)

// described are the routes behind the token that adminapi.OpenAPI describes.
func (a *API) described() map[string]http.HandlerFunc {
	routes := map[string]http.HandlerFunc{
		"GET /metrics":          a.Metrics.ServeHTTP,
		"GET /version":          func(w http.ResponseWriter, _ *http.Request) { respond(w, adminapi.Version{Version: a.Version}) },
		"GET /api/openapi.json": openAPI,
		"GET /api/v1/snapshot":  func(w http.ResponseWriter, _ *http.Request) { respond(w, a.snapshot()) },
		"GET /api/v1/tenants":   paged(ofPages, func(p page) any { return a.tenants(&p) }),
		"GET /api/v1/fairness":  paged(ofOne, func(p page) any { return adminapi.FairnessList{Pools: a.fairness(&p)} }),
		"GET /api/v1/history":   answering(a.showHistory),
		"GET /api/v1/policy":    paged(ofOne, func(p page) any { return policyOf(a.gateway.Snapshot(), &p) }),
		"GET /api/v1/leases": func(w http.ResponseWriter, _ *http.Request) {
			respond(w, adminapi.LeaseList{Leases: leaseViews(a.Governor.State(nobody))})
		},
		"POST /api/v1/reload":      a.reload,
		"POST /api/v1/drain":       a.drain,
		"GET /api/v1/explain":      answering(a.explain),
		"GET /api/v1/keys":         a.listKeys,
		"POST /api/v1/keys":        answering(a.createKey),
		"DELETE /api/v1/keys/{id}": answering(a.revokeKey),
	}
	if a.Events != nil {
		routes["GET /api/v1/events"] = answering(a.followEvents)
	}
	if a.Spend != nil {
		routes["GET /api/v1/spend"] = answering(a.showSpend)
	}
	return routes
}

// nobody reads a governor's state without tenants.
func nobody(string) bool { return false }

// paged answers with a page of tenants.
func paged(known []string, answer func(page) any) http.HandlerFunc {
	return answering(func(w http.ResponseWriter, r *http.Request) error {
		p, err := readPage(r.URL.Query(), known)
		if err == nil {
			respond(w, answer(p))
		}
		return err
	})
}

// openAPI answers GET /api/openapi.json.
func openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(adminapi.OpenAPI)
}

// drain answers POST /api/v1/drain.
func (a *API) drain(w http.ResponseWriter, r *http.Request) {
	a.audit(r, "drain")
	w.WriteHeader(http.StatusAccepted)
	_ = http.NewResponseController(w).Flush() // the drain may end this connection
	a.Drain()
}

// ready answers GET /readyz. Other gateways ask it too, whether this one has their store.
func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	if a.StoreUp != nil {
		if up, there := a.StoreUp(); there {
			readiness.Tell(w.Header(), up)
		}
	}
	if err := a.Unready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
	if n := len(a.unreadable()); n > 0 { // without names: anybody may ask
		fmt.Fprintf(w, "accounts of limits that the store cannot read, and of which nothing is granted: %d; GET /api/v1/snapshot has them among its conditions\n", n)
	}
	for _, p := range a.gateway.Snapshot().Pools() {
		if store := a.Governor.NewStore(p.Name); store != nil {
			fmt.Fprintln(w, store.Countdown(p.Name, time.Now()))
		}
	}
}

func (a *API) unreadable() []adminapi.Unreadable {
	if a.Unreadable == nil {
		return nil
	}
	return a.Unreadable()
}

var errDraining = errors.New("draining")

// Unready returns why no calls should be sent here, or nil.
func (a *API) Unready() error {
	if a.gateway.Leaving() {
		return errDraining
	}
	if a.Ready == nil {
		return nil
	}
	return a.Ready()
}

// routes returns the handler of all routes.
func (a *API) routes() http.Handler {
	guarded := http.NewServeMux()
	for pattern, handler := range a.described() {
		guarded.HandleFunc(pattern, handler)
	}
	if a.Token != "" {
		guarded.HandleFunc("GET /debug/pprof/", pprof.Index)
		guarded.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		guarded.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		guarded.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", a.gateway.Live)
	mux.HandleFunc("GET /readyz", a.ready)
	if a.Console != nil {
		mux.Handle("GET /console/", a.Console)
		mux.HandleFunc("GET /console/token", func(w http.ResponseWriter, _ *http.Request) { respond(w, a.Token != "") }) // whether the page needs one
		mux.Handle("GET /{$}", http.RedirectHandler("/console/", http.StatusFound))
	}
	mux.Handle("/", a.withToken(a.Token, guarded))
	// A web page elsewhere must not be able to drain a gateway on its reader's machine.
	return crash.Handler(inTime(http.NewCrossOriginProtection().Handler(mux)))
}

// adminBodyTimeout is the time that a client of the admin side has to send a body, which is small.
const adminBodyTimeout = 10 * time.Second

// inTime bounds the time for a request's body, also if no handler reads it, because net/http does.
func inTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(adminBodyTimeout))
		}
		next.ServeHTTP(w, r)
	})
}

// withToken demands the admin token, as a bearer token. If there is none, it demands that the
// request is addressed to localhost or a loopback address: a web page elsewhere can make its own
// name resolve to this machine, but cannot call itself localhost.
func (a *API) withToken(token string, next http.Handler) http.Handler {
	if token == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !bearer.Local(r.Host) {
				http.Error(w, "without an admin token, call this listener as localhost or by its loopback address", http.StatusForbidden)
				return
			}
			connections.Known(r.Context(), "")
			next.ServeHTTP(w, by(actorLoopback, r))
		})
	}
	wrong := sampled.Gate{Every: time.Minute, Most: 5}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own := a.token()
		if !own.Is(bearer.Credential(r.Header)) && !fromPeer(own, r) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="llmgov admin"`)
			http.Error(w, "the admin token is missing or wrong", http.StatusUnauthorized)
			if unlogged, ok := wrong.Pass(time.Now()); ok {
				a.Log.Warn("admin token missing or wrong", "remote", r.RemoteAddr, "method", text.Brief(r.Method), "path", text.Brief(r.URL.Path), "unlogged", unlogged)
			}
			return
		}
		connections.Known(r.Context(), "")
		next.ServeHTTP(w, by(actorToken, r))
	})
}

// token is the token of now: it may be changed while the gateway runs, but not be taken away.
func (a *API) token() bearer.Token {
	return bearer.NewToken(cmp.Or(a.gateway.Snapshot().Config().Admin.Token, a.Token))
}

// New returns the admin side of a gateway, which began now.
func New(gateway Gateway, opt Options) *API {
	if opt.PeerClient == nil {
		opt.PeerClient = readiness.NewClient(nil)
	}
	a := &API{Options: opt, gateway: gateway, zone: gateway.Snapshot().Location(), started: time.Now()}
	a.history = history.NewRecorder(a.readings)
	a.Handler = a.routes()
	return a
}
