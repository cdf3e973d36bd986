package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/crash"
	"github.com/llmgov/llmgov/internal/ops/history"
	"github.com/llmgov/llmgov/internal/ops/readiness"
	"github.com/llmgov/llmgov/tenants"
)

// described are the routes of callers that adminapi.OpenAPI describes, with the role that each needs.
func (a *API) described() map[string]route {
	routes := map[string]route{
		"GET /metrics":          {tenants.RoleView, a.Metrics.ServeHTTP},
		"GET /version":          {tenants.AnyRole, func(w http.ResponseWriter, _ *http.Request) { respond(w, adminapi.Version{Version: a.Version}) }},
		"GET /api/openapi.json": {tenants.AnyRole, openAPI},
		"GET /api/v1/me":        {tenants.AnyRole, whoAsks},
		"GET /api/v1/snapshot":  {tenants.RoleView, func(w http.ResponseWriter, _ *http.Request) { respond(w, a.snapshot()) }},
		"GET /api/v1/tenants":   {tenants.RoleView, paged(ofPages, func(p page) any { return a.tenants(&p) })},
		"GET /api/v1/fairness":  {tenants.RoleView, paged(ofOne, func(p page) any { return adminapi.FairnessList{Pools: a.fairness(&p)} })},
		"GET /api/v1/history":   {tenants.RoleView, answering(a.showHistory)},
		"GET /api/v1/policy":    {tenants.RoleView, paged(ofOne, func(p page) any { return policyOf(a.gateway.Snapshot(), &p) })},
		"GET /api/v1/leases": {tenants.RoleView, func(w http.ResponseWriter, _ *http.Request) {
			respond(w, adminapi.LeaseList{Leases: leaseViews(a.Governor.State(nobody))})
		}},
		"POST /api/v1/reload":      {tenants.RoleOperate, a.reload},
		"POST /api/v1/drain":       {tenants.RoleOperate, a.drain},
		"GET /api/v1/explain":      {tenants.RoleView, answering(a.explain)},
		"GET /api/v1/keys":         {tenants.AnyRole, a.listKeys},
		"POST /api/v1/keys":        {tenants.RoleKeys, answering(a.createKey)},
		"DELETE /api/v1/keys/{id}": {tenants.RoleKeys, answering(a.revokeKey)},
	}
	if a.Overrides != nil {
		routes["GET /api/v1/overrides"] = route{tenants.RoleView, a.listOverrides}
		routes["GET /api/v1/overrides/{tenant...}"] = route{tenants.RoleView, answering(a.showOverride)}
		routes["PUT /api/v1/overrides/{tenant...}"] = route{tenants.RoleOperate, answering(a.setOverride)}
		routes["DELETE /api/v1/overrides/{tenant...}"] = route{tenants.RoleOperate, answering(a.clearOverride)}
		routes["GET /api/v1/tenants/{name}"] = route{tenants.RoleAdmin, answering(a.showTenant)}
		routes["PUT /api/v1/tenants/{name}"] = route{tenants.RoleAdmin, answering(a.setTenant)}
		routes["DELETE /api/v1/tenants/{name}"] = route{tenants.RoleAdmin, answering(a.clearTenant)}
	}
	if a.Events != nil {
		routes["GET /api/v1/events"] = route{tenants.RoleView, answering(a.followEvents)}
	}
	if a.Spend != nil {
		routes["GET /api/v1/spend"] = route{tenants.RoleView, answering(a.showSpend)}
	}
	return routes
}

// profiles are the routes of callers that are for people. They show what is in the process's memory.
func (a *API) profiles() map[string]route {
	if a.Token == "" {
		return nil
	}
	return map[string]route{
		"GET /debug/pprof/":        {tenants.RoleAdmin, pprof.Index},
		"GET /debug/pprof/profile": {tenants.RoleAdmin, pprof.Profile},
		"GET /debug/pprof/symbol":  {tenants.RoleAdmin, pprof.Symbol},
		"GET /debug/pprof/trace":   {tenants.RoleAdmin, pprof.Trace},
	}
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

// whoAsks answers GET /api/v1/me.
func whoAsks(w http.ResponseWriter, r *http.Request) {
	who := callerOf(r)
	respond(w, adminapi.Me{User: who.user, Role: string(who.Role), Tenants: who.Tenants})
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
	for _, list := range []map[string]route{a.described(), a.profiles()} {
		for pattern, to := range list {
			guarded.HandleFunc(pattern, allowed(pattern, to))
		}
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", a.gateway.Live)
	mux.HandleFunc("GET /readyz", a.ready)
	if a.Console != nil {
		mux.Handle("GET /console/", a.Console)
		mux.HandleFunc("GET /console/token", func(w http.ResponseWriter, r *http.Request) { // whether the page needs one
			user, _ := proxied(&a.gateway.Snapshot().Config().Admin.Proxy, r)
			respond(w, a.Token != "" && user == "")
		})
		mux.Handle("GET /{$}", http.RedirectHandler("/console/", http.StatusFound))
	}
	mux.Handle("/", a.identified(guarded))
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

// New returns the admin side of a gateway, which began now.
func New(gateway Gateway, opt Options) *API {
	if opt.PeerClient == nil {
		opt.PeerClient = readiness.NewClient(nil)
	}
	a := &API{Options: opt, gateway: gateway, zone: gateway.Snapshot().Location(), started: time.Now(), reading: make(chan struct{}, 1)}
	a.history = history.NewRecorder(a.readings)
	a.Handler = a.routes()
	return a
}
