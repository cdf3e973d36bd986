package governor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
)

// destinations is a random pool whose upstreams have limits of their own, and what happens in it.
type destinations struct {
	cfg   Config
	steps []destinationStep
}

type destinationStep struct {
	kind  string // call, end, fail, pass or close
	call  Request
	wait  time.Duration
	which int // a running call, or an upstream
	took  int64
}

func drawDestinations(t *rapid.T) destinations {
	d := destinations{cfg: Config{
		Pools: []Pool{{
			Name: "p", TPM: rapid.SampledFrom([]int64{8_000, 60_000, 1_000_000}).Draw(t, "tpm"), Burst: time.Minute, MaxQueue: 100,
			Concurrency: rapid.Int64Range(2, 12).Draw(t, "slots"), PerTenant: true,
			Accounting: escrow.Accounting(rapid.IntRange(0, 2).Draw(t, "accounting")),
		}},
		Tenants: []Tenant{
			{Name: "a", Weight: 1000, MaxWait: 10 * time.Minute},
			{Name: "b", Weight: 3000, MaxWait: 10 * time.Minute, TPM: 9_000},
			{Name: "shadow", Weight: 1000, Shadow: true, TPM: 5_000},
		},
	}}
	upstreams := rapid.IntRange(1, 4).Draw(t, "upstreams")
	for i := range upstreams {
		d.cfg.Pools[0].Upstreams = append(d.cfg.Pools[0].Upstreams, Upstream{
			Name:        fmt.Sprint("u", i),
			Weight:      rapid.Int64Range(1, 4).Draw(t, "weight"),
			Order:       rapid.Int64Range(0, 1).Draw(t, "order"),
			TPM:         rapid.SampledFrom([]int64{0, 3_000, 10_000, 30_000}).Draw(t, "own tpm"),
			RPM:         rapid.SampledFrom([]int64{0, 5}).Draw(t, "own rpm"),
			Concurrency: rapid.SampledFrom([]int64{0, 2}).Draw(t, "own slots"),
		})
	}
	kinds := []string{"call", "call", "call", "end", "end", "fail", "pass", "close"}
	for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
		odd := time.Duration(i+1) * 1013 * time.Microsecond // so that no two things happen at one instant, in either order
		wait := rapid.SampledFrom([]time.Duration{0, time.Minute + odd}).Draw(t, "max wait")
		d.steps = append(d.steps, destinationStep{
			kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			call: Request{
				Tenant: rapid.SampledFrom(d.cfg.Tenants).Draw(t, "tenant").Name, Pool: "p", MaxWait: &wait,
				Input: rapid.Int64Range(0, 500).Draw(t, "input"), Output: rapid.SampledFrom([]int64{100, 2_000, 12_000}).Draw(t, "output"),
				Background:   rapid.Bool().Draw(t, "background"),
				Via:          rapid.Uint64Range(0, 1<<upstreams-1).Draw(t, "via"),
				Conversation: rapid.Uint64Range(0, 2).Draw(t, "conversation"),
			},
			wait:  rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 20 * time.Second, time.Minute}).Draw(t, "time") + odd*odd/time.Millisecond,
			which: rapid.IntRange(0, 100).Draw(t, "which"),
			took:  rapid.Int64Range(0, 3_000).Draw(t, "took"),
		})
	}
	return d
}

// destinationRun is one run of these steps.
type destinationRun struct {
	g       *Governor
	asks    bool // Explain is asked before each call
	running []Lease
	wrong   string

	mu   sync.Mutex
	went []string      // guarded by mu: where each call went at once; "" if it did not
	late map[int]Lease // guarded by mu: of calls that have begun since collect, by their place in went
}

// run takes the steps, and returns what came of them.
func (d destinations) run(t *testing.T, asks bool) *destinationRun {
	r := &destinationRun{asks: asks, late: map[int]Lease{}}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r.g = must(t, d.cfg)
		time.Sleep(time.Minute)
		for _, s := range d.steps {
			r.take(ctx, d.cfg.Pools[0].Upstreams, s)
			r.collect()
		}
		cancel()
		r.collect()
		for _, l := range r.running {
			l.Settle(Usage{})
		}
	})
	return r
}

func (r *destinationRun) take(ctx context.Context, list []Upstream, s destinationStep) {
	switch {
	case s.kind == "pass":
		time.Sleep(s.wait)
	case s.kind == "close":
		r.g.Throttle("p", []Cut{{Part: 1, Upstream: list[s.which%len(list)].Name, Until: time.Now().Add(s.wait)}})
	case s.kind == "call":
		r.call(ctx, s.call)
	case len(r.running) > 0:
		i := s.which % len(r.running)
		if s.kind == "fail" {
			r.running[i].Failed()
		}
		r.running[i].Settle(Usage{Output: s.took})
		r.running = slices.Delete(r.running, i, i+1)
	}
}

// collect takes in the calls that have begun after a wait, always in the same order.
func (r *destinationRun) collect() {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(r.late)) {
		r.running = append(r.running, r.late[n])
	}
	clear(r.late)
}

// call makes a call, and compares where it goes with what is said of it before.
func (r *destinationRun) call(ctx context.Context, req Request) {
	o := r.ask(req)
	r.mu.Lock()
	n := len(r.went)
	r.went = append(r.went, "")
	r.mu.Unlock()
	began := time.Now()
	go func() {
		l, rej := r.g.Acquire(ctx, req)
		if rej != nil {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.late[n] = l
		if time.Now().Equal(began) {
			r.went[n] = l.Upstream()
		}
	}()
	synctest.Wait()
	at := r.went[n]
	waits := o.Wait > 0 && o.Upstream == "" // a prediction: of equal turns the call may go first after all
	if r.asks && o.Upstream != at && !waits && r.wrong == "" {
		r.wrong = fmt.Sprintf("%+v goes to %q, and %q was said: refused %v, %+v", req, at, o.Upstream, o.Refused, o.Upstreams)
	}
}

// ask explains a call, or only brings the books up to date, as whoever asks does.
func (r *destinationRun) ask(req Request) Outlook {
	if r.asks {
		o, _ := r.g.Explain(req)
		return o
	}
	at := r.g.table.Load().find(&req)
	at.pool.mu.Lock()
	defer at.pool.mu.Unlock()
	at.pool.escrow.Foretell(time.Now(), escrow.Call{Leaf: at.access.seat.leaf, Most: escrow.Cost{1, 1}, Via: 1})
	return Outlook{}
}

// The upstream that is named for a call is the one where the same call then goes, and to ask changes nothing, whatever the pool and its
// calls are like. Seen to fail with each of these: the choice made without the call's conversation, or with upstreams where its tenant
// runs as many calls as it may; always the first one; a shadow's call as if its limits were enforced.
func TestUpstreams_Foretold(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := drawDestinations(r)
		asked := d.run(t, true)
		if asked.wrong != "" {
			r.Fatal(asked.wrong)
		}
		if diff := cmp.Diff(d.run(t, false).went, asked.went); diff != "" {
			r.Fatalf("to ask changed what happened (-unasked +asked):\n%s", diff)
		}
	})
}

// Each upstream that is passed over has a reason, with the limit that has no room.
func TestUpstreams_PassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := twoUpstreams()
		cfg.Pools[0].PerTenant = true
		cfg.Pools[0].Concurrency = 100
		cfg.Pools[0].Upstreams = []Upstream{
			{Name: "full", Weight: 1, TPM: 10_000},
			{Name: "small", Weight: 1, TPM: 1_000},
			{Name: "else", Weight: 1},
			{Name: "down", Weight: 1},
			{Name: "failing", Weight: 1, Concurrency: 5},
			{Name: "paid", Weight: 1, Order: 1},
		}
		g := must(t, cfg)
		time.Sleep(time.Minute)
		failing := demand("a", 4_000)
		failing.Via = 0b010000
		for range 2 {
			l, _ := g.Acquire(t.Context(), failing)
			l.Failed()
		}
		g.Throttle("p", []Cut{{Part: 1, Upstream: "down", Until: time.Now().Add(7 * time.Second)}})
		filled := demand("a", 8_000)
		filled.Via = 0b000001
		admitted(t, g, filled)
		time.Sleep(5 * time.Second)
		req := demand("a", 4_000)
		req.Via = 0b111011
		o, _ := g.Explain(req)
		var got []string
		for _, u := range o.Upstreams {
			c := u.Lacks
			got = append(got, fmt.Sprintf("%s %v: %s %d/%d+%d %v", u.Name, u.Standing, c.Axis, c.Used, c.Limit, c.Asked, c.Wait.Round(time.Second)))
		}
		want := []string{
			"full full: tokens 8000/10000+4000 56s", "small too_small: tokens 0/1000+4000 0s", "else not_allowed:  0/0+0 0s",
			"down closed:  0/0+0 2s", "failing per_tenant:  0/0+0 0s", "paid room:  0/0+0 0s",
		}
		if diff := cmp.Diff(want, got); diff != "" || o.Upstream != "paid" {
			t.Errorf("it goes to %q (-want +got):\n%s", o.Upstream, diff)
		}
	})
}

// A call that finds no room at its only upstream waits, also if nobody knows for how long: until another call ends, or
// the upstream works again.
func TestUpstreams_NobodyKnowsWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := twoUpstreams()
		cfg.Pools[0].Upstreams = []Upstream{{Name: "only", Weight: 1, Concurrency: 1}}
		g := must(t, cfg)
		time.Sleep(time.Minute)
		l, _ := g.Acquire(t.Context(), demand("a", 100))
		if o, _ := g.Explain(demand("a", 100)); o.Wait == 0 || o.Upstream != "" {
			t.Errorf("at an upstream with one call too many it waits %v and goes to %q", o.Wait, o.Upstream)
		}
		l.Settle(Usage{})
		g.Throttle("p", []Cut{{Part: Whole, Upstream: "only", Until: time.Now().Add(9 * time.Second)}})
		if o, _ := g.Explain(demand("a", 100)); o.Wait != 9*time.Second || o.Upstream != "" {
			t.Errorf("at an upstream that is closed it waits %v and goes to %q", o.Wait, o.Upstream)
		}
	})
}
