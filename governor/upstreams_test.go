package governor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

func twoUpstreams() Config {
	return Config{
		Pools: []Pool{{
			Name: "p", TPM: 4_000_000, Burst: time.Minute, MaxQueue: 100,
			Upstreams: []Upstream{{Name: "ptu", Weight: 1, TPM: 10_000, Concurrency: 3}, {Name: "paid", Weight: 1, Order: 1, TPM: 30_000}},
		}},
		Tenants: []Tenant{{Name: "a", Weight: 1, MaxWait: 5 * time.Minute}},
	}
}

// use is the tokens in use of a pool's upstreams.
func use(g *Governor) (list []int64) {
	for _, u := range g.Upstreams("p") {
		list = append(list, u.Used.Minute[limits.Tokens])
	}
	return list
}

// A call goes to the first upstream that has room, may move to another one with room, and leaves in each what it took there.
func TestUpstreams_Move(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoUpstreams())
		time.Sleep(time.Minute)
		l, rej := Refused(g.Acquire(t.Context(), demand("a", 8_000)))
		if rej != nil || l.Upstream() != "ptu" {
			t.Fatalf("at %q, %v", l.Upstream(), rej)
		}
		second, rej := Refused(g.Acquire(t.Context(), demand("a", 4_000)))
		if rej != nil || second.Upstream() != "paid" {
			t.Fatalf("at %q, %v; the first has no room", second.Upstream(), rej)
		}
		if name, ok := second.Move([]string{"ptu"}, Usage{}, false); ok || second.Upstream() != "paid" {
			t.Errorf("moved to %q, which has no room", name)
		}
		if name, ok := l.Move([]string{"paid"}, Usage{Output: 500}, true); !ok || name != "paid" || l.Upstream() != "paid" {
			t.Errorf("moved to %q, %v", name, ok)
		}
		if u := use(g); u[0] != 500 || u[1] != 12_000 {
			t.Errorf("used %v, want 500 where it broke off and 12,000", u)
		}
		l.Settle(Usage{Output: 1_500}) // 500 of these in vain
		if u := use(g); u[0] != 500 || u[1] != 5_000 {
			t.Errorf("used %v at the end, want 500 and 5,000", u)
		}
		if l.Upstream() != "" || l.Settle(Usage{}) {
			t.Error("an ended lease is still somewhere")
		}
	})
}

// Calls that wait keep their upstreams, whatever place these have in another configuration; a cut of one closes that one alone.
func TestUpstreams_Apply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := twoUpstreams()
		g := must(t, cfg)
		time.Sleep(time.Minute)
		filled, _ := g.Acquire(t.Context(), demand("a", 9_000))
		g.Throttle("p", []Cut{{Part: Whole / 2, Upstream: "paid", Until: time.Now().Add(30 * time.Second)}})
		got := make(chan string, 1)
		began := time.Now()
		go func() {
			req := demand("a", 2_000)
			req.Via = 0b10
			l, rej := Refused(g.Acquire(context.Background(), req))
			if rej != nil {
				t.Error(rej)
			}
			got <- l.Upstream()
		}()
		synctest.Wait()
		list := cfg.Pools[0].Upstreams
		cfg.Pools[0].Upstreams = []Upstream{list[1], {Name: "new", TPM: 10}, list[0]}
		testkit.OK(t, g.Apply(cfg))
		if filled.Upstream() != "ptu" {
			t.Errorf("a running call is at %q", filled.Upstream())
		}
		filled.Settle(Usage{})
		if at := <-got; at != "paid" || time.Since(began) != 30*time.Second {
			t.Errorf("it went to %q after %v, want paid, after the cut of 30 s", at, time.Since(began))
		}
		cfg.Pools[0].Upstreams = nil
		testkit.OK(t, g.Apply(cfg))
		if l, rej := Refused(g.Acquire(t.Context(), demand("a", 50_000))); rej != nil || l.Upstream() != "" {
			t.Errorf("without upstreams it is at %q, %v", l.Upstream(), rej)
		}
	})
}

// A restart forgets no usage: nobody knows at which upstream the last minute was, so it counts at each.
func TestUpstreams_Restart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		past := record.NewPast(time.Now(), time.UTC)
		began := time.Now()
		cfg := twoUpstreams()
		cfg.Past = past
		took := record.Charge{Pool: escrow.Cost{7_000}}
		past.Ended = []record.Record{{Pool: "p", Tenant: "a", Began: began, Ended: began.Add(time.Second), Booked: took, Took: took}}
		time.Sleep(2 * time.Second)
		g := must(t, cfg)
		if u := use(g); u[0] != 7_000 || u[1] != 7_000 {
			t.Errorf("used %v, want 7,000 of each", u)
		}
	})
}

// An upstream that leaves the configuration and comes back has not forgotten what was used of it, nor which calls still run there.
func TestUpstreams_ComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := twoUpstreams()
		both := cfg.Pools[0].Upstreams
		g := must(t, cfg)
		time.Sleep(time.Minute)
		ended, _ := g.Acquire(t.Context(), demand("a", 5_000))
		ended.Settle(Usage{Output: 5_000})
		running, _ := g.Acquire(t.Context(), demand("a", 1_000))
		for _, list := range [][]Upstream{both[1:], both} {
			cfg.Pools[0].Upstreams = list
			testkit.OK(t, g.Apply(cfg))
		}
		if u := g.Upstreams("p")[0].Used; u.Minute[limits.Tokens] != 6_000 || u.Concurrency != 1 {
			t.Errorf("%+v is used, want 6,000 tokens, and one call", u)
		}
		running.Settle(Usage{Output: 1_000})
		if u := g.Upstreams("p")[0].Used; u.Minute[limits.Tokens] != 6_000 || u.Concurrency != 0 {
			t.Errorf("%+v is used at the end, want 6,000 tokens, and no call", u)
		}
		cfg.Pools[0].Upstreams = both[1:]
		for range 2 { // it is forgotten when it has been away for long
			testkit.OK(t, g.Apply(cfg))
			time.Sleep(5 * time.Minute)
		}
		cfg.Pools[0].Upstreams = both
		testkit.OK(t, g.Apply(cfg))
		if u := g.Upstreams("p")[0]; u.Calls != 0 {
			t.Errorf("%+v is remembered", u)
		}
	})
}

// placed is the name of the upstream where a call goes, in a pool that has been idle.
func placed(t *testing.T, cfg Config, req Request) (name string) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, cfg)
		time.Sleep(time.Minute)
		l, rej := Refused(g.Acquire(t.Context(), req))
		if rej != nil {
			t.Error(rej)
		}
		name = l.Upstream()
		l.Settle(Usage{})
	})
	return name
}

// A call that is larger than an upstream's tokens a minute goes to another one that it may use, whichever comes first. If it is
// larger than all, it goes to the largest.
func TestUpstreams_Larger(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cfg := twoUpstreams()
		cfg.Pools[0].Upstreams = nil
		limits := rapid.SliceOfN(rapid.SampledFrom([]int64{0, 1_000, 5_000, 20_000, 80_000}), 1, 5).Draw(r, "limits")
		for i, tpm := range limits {
			order := rapid.Int64Range(0, 2).Draw(r, "order")
			cfg.Pools[0].Upstreams = append(cfg.Pools[0].Upstreams, Upstream{Name: fmt.Sprint(i), Weight: 1, Order: order, TPM: tpm})
		}
		req := demand("a", rapid.Int64Range(1, 100_000).Draw(r, "tokens"))
		req.Via = rapid.Uint64Range(1, 1<<len(limits)-1).Draw(r, "via")
		at := placed(t, cfg, req)
		takes := func(i int) int64 {
			if limits[i] == 0 {
				return req.Output
			}
			return min(limits[i], req.Output)
		}
		there := int64(-1)
		most := int64(0)
		for i := range limits {
			if req.Via&(1<<i) == 0 {
				continue
			}
			most = max(most, takes(i))
			if at == fmt.Sprint(i) {
				there = takes(i)
			}
		}
		if there != most {
			r.Fatalf("a call of %d tokens is at %q of %v, via %b", req.Output, at, limits, req.Via)
		}
	})
}

// A call that broke off goes on at no upstream that is too small for it, even if all others are full.
func TestUpstreams_LargerMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoUpstreams())
		time.Sleep(time.Minute)
		l, rej := Refused(g.Acquire(t.Context(), demand("a", 20_000)))
		if rej != nil || l.Upstream() != "paid" {
			t.Fatalf("at %q, %v", l.Upstream(), rej)
		}
		if name, ok := l.Move([]string{"ptu"}, Usage{}, true); ok {
			t.Errorf("moved to %q, which has less in a minute", name)
		}
	})
}

// What is said of a call that is asked about goes by the upstreams that it may use.
func TestUpstreams_Explained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoUpstreams())
		time.Sleep(time.Minute)
		req := demand("a", 8_000)
		if o, ok := g.Explain(req); !ok || o.Refused != nil || o.Wait != 0 {
			t.Errorf("with both idle: %+v", o)
		}
		l, _ := g.Acquire(t.Context(), req)
		defer l.Settle(Usage{})
		req.Via = 0b01
		if o, ok := g.Explain(req); !ok || o.Refused != nil || o.Wait == 0 {
			t.Errorf("with its only one full: %+v", o)
		}
	})
}

// A call that is refused because its upstreams are full is not told that its pool is slow.
func TestUpstreams_RefusedByUpstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(t, twoUpstreams())
		time.Sleep(time.Minute)
		req := demand("a", 8_000)
		req.Via = 0b01
		l, _ := g.Acquire(t.Context(), req)
		defer l.Settle(Usage{})
		now := time.Duration(0)
		req.MaxWait = &now
		_, rej := Refused(g.Acquire(t.Context(), req))
		const want = "Requested 8000. The pool has room, but the upstreams to which this call may go have none. Please try again in "
		if rej == nil || !strings.Contains(rej.Error(), want) {
			t.Errorf("it is told %v", rej)
		}
	})
}

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
			{Name: "a", Weight: 1, MaxWait: 10 * time.Minute},
			{Name: "b", Weight: 3, MaxWait: 10 * time.Minute, TPM: 9_000},
			{Name: "shadow", Weight: 1, Shadow: true, TPM: 5_000},
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
		went := slices.Clone(r.went)
		cancel() // by chance one call goes that waits when another one leaves before it
		r.collect()
		for _, l := range r.running {
			l.Settle(Usage{})
		}
		r.went = went
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
func (r *destinationRun) ask(req Request) Forecast {
	if r.asks {
		o, _ := r.g.Explain(req)
		return o
	}
	now := r.g.look()
	defer r.g.unlock()
	at := r.g.table.find(now, &req)
	at.pool.escrow.Foretell(time.Now(), escrow.Call{Leaf: at.access.seat.leaf, Most: escrow.Cost{1, 1}, Via: 1})
	return Forecast{}
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
