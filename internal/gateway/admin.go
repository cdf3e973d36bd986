package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor"
)

// AdminOptions say what the admin side shows beyond the gateway's own state.
type AdminOptions struct {
	// Token guards everything but /livez and /readyz; empty asks for none, which
	// is fit for a loopback listener only.
	Token string
	// Version, Node and Region are shown as they are.
	Version, Node, Region string
	// Drain begins a graceful shutdown.
	Drain func()
	// Ready says why no calls can be admitted, if they cannot; nil is that they always can.
	Ready func() error
	// Policies is who follows the files; nil where there are none.
	Policies Policies
	// Sharing is how a pool's limits are shared with other gateways; it answers nil where
	// they are not, and asks nobody.
	Sharing func(pool string) *Sharing
	// Console answers below /console/; nil is that there is none. It holds nothing but the
	// page itself, and needs no token.
	Console http.Handler
	// Closing ends the streams of events; nil is never.
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
		respond(w, map[string]any{"tenants": g.tenantViews()})
	})
	guarded.HandleFunc("GET /api/v1/fairness", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]any{"pools": g.fairnessViews()})
	})
	guarded.HandleFunc("GET /api/v1/policy", func(w http.ResponseWriter, _ *http.Request) { respond(w, g.policyView()) })
	guarded.HandleFunc("GET /api/v1/leases", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]any{"leases": leaseViews(g.gov.State())})
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
	mux.Handle("/", withToken(opt.Token, guarded))
	// A page elsewhere must not be able to drain a gateway on its reader's machine.
	return crashing(http.NewCrossOriginProtection().Handler(mux))
}

// withToken asks for the admin token, as a bearer. Without one it asks that the
// caller called this machine by a name of its own: a page elsewhere can make its
// own name lead here, but not call itself localhost.
func withToken(token string, next http.Handler) http.Handler {
	if token == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !loopback(r.Host) {
				http.Error(w, "without an admin token, call this listener as localhost or by its loopback address", http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, by(actorLoopback, r))
		})
	}
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(bearer(r.Header)))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="llmgov admin"`)
			http.Error(w, "the admin token is missing or wrong", http.StatusUnauthorized)
			return
		}
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

type snapshotView struct {
	Version    string     `json:"version"`
	Node       string     `json:"node"`
	Region     string     `json:"region"`
	PolicyHash string     `json:"policy_hash"`
	Draining   bool       `json:"draining"`
	Tenants    int        `json:"tenants"`
	Pools      []poolView `json:"pools"`

	Policy *PolicyStatus `json:"policy,omitempty"`
}

type poolView struct {
	Name       string     `json:"name"`
	Upstream   string     `json:"upstream"`
	Models     []string   `json:"models"`
	Accounting string     `json:"accounting"`
	Limits     []axisView `json:"limits"`
	// Adaptive is of a limit on calls at once that moves; what it is now stands in Limits.
	Adaptive     *adaptiveView `json:"adaptive,omitempty"`
	Running      int64         `json:"running"`
	Waiting      int           `json:"waiting"`
	OldestWait   float64       `json:"oldest_wait_seconds"`
	BurstSeconds float64       `json:"burst_seconds"`
	// RateRatio is the part of the rate that is handed out, and HeldUntil until when
	// nothing is, because upstreams are missing or have asked for a pause.
	RateRatio float64        `json:"rate_ratio"`
	HeldUntil *time.Time     `json:"held_until"`
	Upstreams []upstreamView `json:"upstreams"`

	Budgets []budgetView `json:"budgets"`
	Sharing *Sharing     `json:"sharing,omitempty"`

	// Fairness lists the tenants that ask for most, and Leases those that are oldest.
	Fairness    fairnessView `json:"fairness"`
	LeasesTotal int          `json:"leases_total"`
	Leases      []leaseView  `json:"leases"`
}

// upstreamView is what is believed of one of a pool's upstreams.
type upstreamView struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	Weight int64  `json:"weight"`
	// State is up, busy (it has asked for a pause), open (it fails, and is left out) or
	// probing (the next call tells whether it works again).
	State string     `json:"state"`
	Until *time.Time `json:"until"`
	// TPM and RPM are what it has declared of late; null where it has not.
	TPM *int64 `json:"declared_tpm"`
	RPM *int64 `json:"declared_rpm"`
}

// upstreamViews are those of a pool.
func (p *poolSide) upstreamViews(now time.Time) []upstreamView {
	var out []upstreamView
	for i, m := range p.set.Members {
		s := m.State(now)
		v := upstreamView{Name: m.Name, Kind: p.upstreams[i].kind, Weight: m.Weight, State: "up"}
		switch {
		case s.Busy:
			v.State = "busy"
		case s.Probing:
			v.State = "probing"
		case !s.Up:
			v.State = "open"
		}
		if s.Retry.After(now) && !s.Probing {
			v.Until = &s.Retry
		}
		if s.Tokens > 0 {
			v.TPM = &s.Tokens
		}
		if s.Requests > 0 {
			v.RPM = &s.Requests
		}
		out = append(out, v)
	}
	return out
}

// budgetView is one budget, or a tenant's part of a pool's; money is in dollars.
type budgetView struct {
	Name     string    `json:"name"`
	Unit     string    `json:"unit"`
	Per      string    `json:"per"`
	Pool     string    `json:"pool,omitempty"`
	Limit    float64   `json:"limit"`
	Used     float64   `json:"used"`
	ResetsAt time.Time `json:"resets_at"`
}

// adaptiveView is how a limit on calls at once moves.
type adaptiveView struct {
	Law string `json:"law"`
	Min int64  `json:"min"`
	Max int64  `json:"max"`
}

func adaptiveOf(p *governor.Pool) *adaptiveView {
	if p.Adaptive == adaptive.Fixed {
		return nil
	}
	return &adaptiveView{p.Adaptive.String(), p.MinConcurrency, p.Concurrency}
}

// axisView is one limit; of a pool's rolling limits headroom is taken off. Pool is
// set for a tenant's limits in one pool.
type axisView struct {
	Axis  string `json:"axis"`
	Pool  string `json:"pool,omitempty"`
	Limit int64  `json:"limit"`
	Used  int64  `json:"used"`
}

type leaseView struct {
	ID         string  `json:"id"`
	Tenant     string  `json:"tenant"`
	Pool       string  `json:"pool"`
	State      string  `json:"state"`
	AgeSeconds float64 `json:"age_seconds"`
	HeldTokens int64   `json:"held_tokens"`
	UsedTokens int64   `json:"used_tokens"`
	Stream     bool    `json:"stream"`
}

func (g *Gateway) snapshotView(opt AdminOptions) snapshotView {
	w := g.world.Load()
	v := snapshotView{
		Version: opt.Version, Node: opt.Node, Region: opt.Region,
		PolicyHash: w.snap.Hash(), Draining: g.gov.Draining(), Tenants: len(w.snap.Tenants()), Pools: []poolView{},
	}
	if opt.Policies != nil {
		status := opt.Policies.Status()
		v.Policy = &status
	}
	s := g.gov.State()
	for i := range s.Pools {
		p := &s.Pools[i]
		t, ok := w.poolNamed(p.Config.Name)
		if !ok {
			continue // a policy is being taken over
		}
		pv := poolView{
			Name: p.Config.Name, Upstream: t.UpstreamNames(), Models: t.Models, Accounting: string(t.Accounting),
			Limits: []axisView{}, Adaptive: adaptiveOf(&p.Config), Running: p.Running, Waiting: p.Waiting, OldestWait: oldestWait(p), BurstSeconds: p.Config.Burst.Seconds(),
			Budgets: budgetViews(p.Budgets), Upstreams: t.upstreamViews(time.Now()), RateRatio: float64(p.Part) / governor.Whole,
			Fairness: fairnessOf(p, snapshotTop), LeasesTotal: len(p.Leases), Leases: oldest(viewsOf(p.Leases), snapshotTop),
		}
		if !p.Held.IsZero() {
			pv.RateRatio, pv.HeldUntil = 0, &p.Held
		}
		for _, axis := range []escrow.Axis{escrow.Tokens, escrow.Requests} {
			if a := p.Axes[axis]; a.On {
				pv.Limits = append(pv.Limits, axisView{Axis: axis.String(), Limit: a.Limit, Used: a.Used})
			}
		}
		if p.Slots > 0 {
			pv.Limits = append(pv.Limits, axisView{Axis: escrow.Slots.String(), Limit: p.Slots, Used: p.SlotsUsed})
		}
		if opt.Sharing != nil {
			pv.Sharing = opt.Sharing(p.Config.Name)
		}
		v.Pools = append(v.Pools, pv)
	}
	return v
}

func budgetViews(list []governor.BudgetState) []budgetView {
	out := []budgetView{}
	for _, b := range list {
		one := 1.0
		if b.Unit == governor.UnitMicroUSD {
			one = float64(budget.USD)
		}
		out = append(out, budgetView{
			Name: b.Name(), Unit: b.Unit.String(), Per: b.Per.String(), Pool: b.Pool,
			Limit: float64(b.Limit) / one, Used: float64(b.Used) / one, ResetsAt: b.Resets,
		})
	}
	return out
}

func viewsOf(list []governor.LeaseInfo) []leaseView {
	out := make([]leaseView, 0, len(list))
	for _, l := range list {
		out = append(out, leaseView{l.ID, l.Tenant, l.Pool, l.State, l.Age.Seconds(), l.Held, l.Used, l.Stream})
	}
	return out
}

func leaseViews(s governor.State) []leaseView {
	out := viewsOf(s.Gone)
	for i := range s.Pools {
		out = append(out, viewsOf(s.Pools[i].Leases)...)
	}
	slices.SortFunc(out, func(a, b leaseView) int { return strings.Compare(a.ID, b.ID) })
	return out
}
