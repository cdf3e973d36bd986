package escrow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

func exp(x float64) float64 { return math.Exp(x) }

// poisson draws a count with the given small mean.
func poisson(r *rand.Rand, mean float64) int {
	n := 0
	p := 1.0
	limit := math.Exp(-mean)
	for {
		p *= r.Float64()
		if p <= limit {
			return n
		}
		n++
	}
}

// Weights 4:2:1:1 with the last one idle: the others get 4:2:1 of the whole
// limit, nothing is left to the idle one, and when it returns it is served
// within half a second.
func TestSharesOfTheWholeLimit(t *testing.T) {
	const limit = 600_000
	for seed := uint64(1); seed <= 3; seed++ {
		w := newWorld(t, seed, Config{TPM: limit, Burst: 10 * time.Second, MaxQueue: 10_000}, 4, 2, 1, 1)
		for i := range 3 {
			w.tenants[i].workers = 16
		}
		w.run(3 * Window)
		from := w.now
		w.run(10 * Window)

		got := w.received(from)
		for i, share := range []float64{4. / 7, 2. / 7, 1. / 7, 0} {
			want := share * limit * 10
			if math.Abs(got[i]-want) > 0.02*limit*10*share {
				t.Errorf("seed %d: tenant %d received %.4f of the limit, want %.4f ± 2 %%", seed, i, got[i]/limit/10, share)
			}
		}
		if max := w.rollingMax(); max > limit {
			t.Errorf("seed %d: I1: %d tokens in a rolling minute of %d", seed, max, limit)
		}

		w.offer(3, time.Hour)
		back := w.now
		w.run(2 * time.Second)
		if first := firstOf(w, 3, back); first > 500*time.Millisecond {
			t.Errorf("seed %d: I4: the idle tenant waited %v when it returned", seed, first)
		}
		t.Logf("seed %d: received %.4f %.4f %.4f of the limit (ideal %.4f %.4f %.4f); returning tenant served after %v", seed,
			got[0]/limit/10, got[1]/limit/10, got[2]/limit/10, 4./7, 2./7, 1./7, firstOf(w, 3, back))
	}
}

func firstOf(w *world, tenant int, since time.Time) time.Duration {
	for _, a := range w.log {
		if a.tenant == tenant && !a.at.Before(since) {
			return a.at.Sub(since)
		}
	}
	return time.Hour
}

// At 60 % Poisson load nobody waits.
func TestModerateLoadWaitsForNothing(t *testing.T) {
	const limit = 600_000
	for seed := uint64(1); seed <= 3; seed++ {
		w := newWorld(t, seed, Config{TPM: limit, Burst: 10 * time.Second, MaxQueue: 10_000}, 1, 1, 1, 1)
		for _, p := range w.tenants {
			p.rate = 0.6 * limit / 60 / 1000 / 4
		}
		w.run(30 * Window)
		d := w.waits(t0.Add(Window))
		p99 := d[len(d)*99/100]
		t.Logf("seed %d: %d calls, queue time mean %v, p99 %v, max %v", seed, len(d), mean(d), p99, d[len(d)-1])
		if p99 > 0 {
			t.Errorf("seed %d: p99 queue time is %v, want none", seed, p99)
		}
	}
}

func mean(d []time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, x := range d {
		sum += x
	}
	return sum / time.Duration(len(d))
}

// An idle pool serves a burst at once, the rest at its pace.
func TestIdlePoolServesItsBurst(t *testing.T) {
	const limit = 600_000
	for _, burst := range []time.Duration{0, time.Second, 10 * time.Second, 30 * time.Second, time.Minute} {
		w := newWorld(t, 1, Config{TPM: limit, Burst: burst, MaxQueue: 10_000}, 1)
		w.tenants[0].cost = func(*rand.Rand) int64 { return 1000 }
		w.run(2 * Window)
		for range 700 {
			w.offer(0, time.Hour)
		}
		want := max(10, int(burst.Seconds())*10)
		if len(w.log) != want {
			t.Errorf("burst %v: %d calls at once, want %d", burst, len(w.log), want)
		}
		w.run(5 * Window)
		if len(w.log) != 700 {
			t.Errorf("burst %v: %d of 700 served after 5 minutes", burst, len(w.log))
		}
		if max := w.rollingMax(); max > limit {
			t.Errorf("burst %v: I1: %d tokens in a rolling minute of %d", burst, max, limit)
		}
	}
}

// I1 and I2 over many pools, saturated and lumpy, with and without estimates
// that are wrong downwards.
func TestI1_I2_RollingLimitAndWorkConservation(t *testing.T) {
	var worst float64
	for seed := range uint64(testkit.Rounds(12, 60)) {
		limit := []int64{30_000, 600_000, 6_000_000, 10_000_000_000}[seed%4]
		burst := []time.Duration{0, 1, 5, 10, 20, 30}[seed%6] * time.Second
		w := newWorld(t, seed, Config{TPM: limit, Burst: burst, MaxQueue: 100_000}, 1, 3)
		size := float64(limit) / 600
		for _, p := range w.tenants {
			p.cost = func(r *rand.Rand) int64 { return 1 + r.Int64N(int64(2*size)) }
		}
		if seed%3 == 0 {
			for _, p := range w.tenants {
				p.actual = func(declared int64) int64 { return declared / 2 }
			}
		}
		saturated := seed%2 == 0
		short := newShortfall(w)
		for range 60 {
			for _, p := range w.tenants {
				p.workers = 0
				p.rate = 0
				switch {
				case saturated:
					p.workers = 4
				case w.rng.IntN(3) == 0:
					p.rate = w.rng.Float64() * 12
				case w.rng.IntN(6) == 0:
					for range 60 + w.rng.IntN(300) {
						w.offer(0, time.Hour)
					}
				}
			}
			for range 10 {
				w.run(time.Second)
				short.look()
			}
		}
		if max := w.rollingMax(); max > limit {
			t.Fatalf("seed %d: I1: %d tokens in a rolling minute of %d", seed, max, limit)
		}
		if s := short.seconds(); s > worst {
			worst = s
		}
		if saturated {
			got := w.received(t0.Add(Window))
			if util := (got[0] + got[1]) / (float64(limit) * 9); util < 0.985 {
				t.Errorf("seed %d: a saturated pool of %d, burst %v, gave %.4f of its limit", seed, limit, burst, util)
			}
		}
	}
	t.Logf("I2: at worst %.2f s of rate short", worst)
	if worst > 1.3 { // B0 (1 s) + c_max (0.2 s) + one slot
		t.Errorf("I2: a waiting queue was served %.2f s of rate less than it could be", worst)
	}
}

// shortfall measures I2: how far service lags r·D − lead(t0) while calls wait.
type shortfall struct {
	w     *world
	since time.Time
	lead  float64
	given int
	worst float64
}

func newShortfall(w *world) *shortfall { return &shortfall{w: w} }

func (s *shortfall) look() {
	p := &s.w.pool.axes[Tokens].pace
	if s.w.pool.Waiting() == 0 {
		s.since = time.Time{}
		return
	}
	if s.since.IsZero() {
		s.since = s.w.now
		s.lead = float64(p.lead)
		s.given = len(s.w.log)
		return
	}
	served := 0.0
	for _, a := range s.w.log[s.given:] {
		served += float64(a.cost)
	}
	rate := float64(p.steady()/p.scale) / Window.Seconds()
	s.worst = max(s.worst, s.w.now.Sub(s.since).Seconds()-(s.lead+served)/rate)
}

func (s *shortfall) seconds() float64 { return s.worst }

// A tenant that declares a third of what it takes gains nothing by it.
func TestSettleCorrectsTheTag(t *testing.T) {
	w := newWorld(t, 1, Config{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000}, 1, 1)
	for _, p := range w.tenants {
		p.workers = 8
	}
	w.tenants[0].actual = func(declared int64) int64 { return 3 * declared }
	w.run(2 * Window)
	from := w.now
	w.run(10 * Window)
	got := w.received(from)
	if r := got[0] / got[1]; r > 1.03 || r < 0.97 {
		t.Fatalf("declaring a third got %.3f times the share", r)
	}
}

// Three tenants with calls of 100, 1000 and 8000 tokens under both a token and
// a request limit: dominant shares are equal.
func TestI12_DominantSharesEqual(t *testing.T) {
	w := newWorld(t, 1, Config{TPM: 600_000, RPM: 600, MaxQueue: 1000}, 1, 1, 1)
	for i, c := range []int64{100, 1000, 8000} {
		w.tenants[i].cost = func(*rand.Rand) int64 { return c }
		w.tenants[i].workers = 16
	}
	w.run(2 * Window)
	from := w.now
	w.run(10 * Window)
	got := w.received(from)
	least := math.Inf(1)
	most := 0.0
	for i, size := range []float64{100, 1000, 8000} {
		d := max(got[i]/600_000, got[i]/size/600) / 10
		least = min(least, d)
		most = max(most, d)
	}
	t.Logf("dominant shares from %.3f to %.3f", least, most)
	if least/most < 0.99 {
		t.Errorf("I12: dominant shares from %.3f to %.3f", least, most)
	}
}

func TestI7_SettleTwice(t *testing.T) {
	for _, acc := range []Accounting{AdmitMax, Production, Settled} {
		p := New(t0, Config{TPM: 60_000, RPM: 600, Slots: 2, Accounting: acc})
		leaf := p.Add(Root, Node{Weight: 1})
		h, ans := p.Offer(t0, Call{Leaf: leaf, Most: Cost{500, 1}, MaxWait: 0})
		if ans.Verdict != Admitted {
			t.Fatalf("verdict %v", ans.Verdict)
		}
		p.Progress(t0, h, Progress{Taken: 100, Expect: 500})
		if !p.Settle(t0, h, Cost{300, 1}) {
			t.Fatal("the first settle found nothing")
		}
		h2, _ := p.Offer(t0, Call{Leaf: leaf, Most: Cost{500, 1}, MaxWait: 0})
		if h2.Slot != h.Slot {
			t.Fatal("the entry was not reused, so the test shows nothing")
		}
		if p.Settle(t0, h, Cost{0, 0}) || p.Cancel(t0, h) {
			t.Fatal("a handle that has ended still ends something")
		}
		testkit.OK(t, p.Check())
		if got := p.State(t0).Axes[Tokens].Used; got != 800 {
			t.Fatalf("accounting %d: %d tokens count, want 300 settled + 500 held", acc, got)
		}
	}
}

// A refusal leaves no trace but the passing of time.
func TestI10_RefusalLeavesThePoolAsItWas(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, RPM: 600, Slots: 3, MaxQueue: 4})
	a := p.Add(Root, Node{Weight: 1})
	b := p.Add(Root, Node{Weight: 3})
	p.Offer(t0, Call{Leaf: a, Most: Cost{900, 1}, MaxWait: 0})
	p.Offer(t0, Call{Leaf: b, Most: Cost{900, 1}, MaxWait: time.Minute})
	p.Pump(t0, nil)
	refusals := []struct {
		leaf    NodeID
		cost    int64
		maxWait time.Duration
	}{{a, 500, 0}, {b, 500, 0}, {a, 50_000, time.Second}}
	for _, r := range refusals {
		before := fmt.Sprintf("%+v", snapshotOf(p))
		_, ans := p.Offer(t0, Call{Leaf: r.leaf, Most: Cost{r.cost, 1}, MaxWait: r.maxWait})
		if ans.Verdict == Admitted || ans.Verdict == Queued {
			t.Fatalf("%+v was not refused but %v", r, ans.Verdict)
		}
		if ans.Wait <= 0 {
			t.Errorf("%+v was refused without a time to come back", r)
		}
		if after := fmt.Sprintf("%+v", snapshotOf(p)); after != before {
			t.Errorf("a refusal changed the pool\nbefore %s\nafter  %s", before, after)
		}
	}
}

func snapshotOf(p *Pool) any {
	c := *p
	out := []any{c.running, c.nodes, *c.nodes[Root].inner, c.tickets}
	for k := range c.axes {
		if !c.axes[k].on {
			continue
		}
		pc := c.axes[k].pace
		pc.ring = nil
		out = append(out, pc, *c.axes[k].ledger)
	}
	return reflect.ValueOf(out).Interface()
}

// Calls that are small and all alike keep every gap in the ring. The gap behind
// the start's first second must not come back each minute: whenever an idle
// tenant returns, it is served within half a second.
func TestI4_NoEchoOfTheStart(t *testing.T) {
	w := newWorld(t, 1, Config{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 1000}, 4, 2, 1, 1)
	for i, p := range w.tenants {
		p.cost = func(*rand.Rand) int64 { return 1000 }
		if i < 3 {
			p.workers = 12
		}
	}
	w.run(2 * Window)
	from := w.now
	for range 60 {
		w.offer(3, time.Hour)
		w.run(3170 * time.Millisecond)
	}
	for _, a := range w.log {
		if a.tenant == 3 && a.wait > 500*time.Millisecond {
			t.Errorf("at %v the returning tenant waited %v", a.at.Sub(from), a.wait)
		}
	}
}

// TestAccount: each thing that can become of a call, and where it is told.
func TestAccount(t *testing.T) {
	const tpm = 60_000
	p := New(t0, Config{TPM: tpm, MaxQueue: 1, TicketWait: 10 * time.Second})
	a := p.Add(Root, Node{Weight: 1})
	b := p.Add(Root, Node{Weight: 1})
	want := func(what string, leaf NodeID, received, waiting, turned int64) {
		t.Helper()
		got := p.Account(leaf)
		for _, x := range []struct {
			name      string
			got, want int64
		}{{"received", got.Received, received}, {"waiting", got.Waiting, waiting}, {"turned", got.Turned, turned}} {
			if got := p.TokensOf(x.got); got < x.want || got > x.want+3 { // each call is rounded up
				t.Errorf("%s: %s is %d tokens, want %d", what, x.name, got, x.want)
			}
		}
	}
	offer := func(leaf NodeID, tokens int64, maxWait time.Duration, retry Retry) (Handle, Answer) {
		return p.Offer(t0, Call{Leaf: leaf, Most: Cost{tokens, 1}, MaxWait: maxWait, Claim: Claim{Retry: retry}})
	}

	h, _ := offer(a, 900, 0, RetryUnknown)
	want("a call runs", a, 900, 0, 0)
	p.Settle(t0, h, Cost{700, 1})
	want("it took less", a, 700, 0, 0)
	h, _ = offer(a, 200, 0, RetryUnknown)
	p.Settle(t0, h, Cost{5000, 1})
	want("another took more", a, 5700, 0, 0)
	if got := p.Account(a).Debt; got != 0 {
		t.Errorf("in an idle pool there is a debt of %d", got)
	}

	for _, leaf := range []NodeID{a, b} {
		h = p.Force(t0, Call{Leaf: leaf, Most: Cost{100, 1}}, true)
	}
	p.Settle(t0, p.handle(0), Cost{4100, 1}) // the other keeps the pool from being idle
	want("of two, one took more", a, 9800, 0, 0)
	if a, b := p.TokensOf(p.Account(a).Debt), p.TokensOf(p.Account(b).Debt); a < 4000 || a > 4110 || b > 110 {
		t.Errorf("who took 4100 instead of 100 has a debt of %d, the other of %d", a, b)
	}
	q, _ := offer(b, 400, time.Minute, RetryUnknown)
	want("a call waits", b, 100, 400, 0)
	if _, ans := offer(b, 300, 0, RetryUnknown); !ans.Ticket {
		t.Fatalf("no place was kept: %+v", ans)
	}
	want("a place is kept", b, 100, 700, 0)
	if _, ans := offer(b, 500, 0, RetryFirst); ans.Ticket || ans.Verdict == Admitted {
		t.Fatalf("a place was kept: %+v", ans)
	}
	want("a call is turned away", b, 100, 700, 500)
	offer(b, 500, 0, RetryAgain)
	want("and tries again", b, 100, 700, 500)
	p.Cancel(t0, q)
	p.Settle(t0, h, Cost{100, 1})
	want("who waits goes away", b, 100, 300, 900)

	p.State(t0.Add(time.Hour))
	want("nobody comes back to the place", b, 100, 0, 1200)
	if !p.Remove(t0.Add(time.Hour), b) {
		t.Fatal("the leaf cannot be removed")
	}
	if c := p.Add(Root, Node{Weight: 1}); c != b {
		t.Fatalf("the leaf's number was not used again: %d", c)
	}
	want("who comes after it", b, 0, 0, 0)
}

// TestUnused: a pool that is pumped leaves next to nothing unused while calls wait,
// and one whose owner forgets to, all of its rate but for the first second and call.
func TestUnused(t *testing.T) {
	for seed := range uint64(testkit.Rounds(9, 24)) {
		limit := []int64{30_000, 600_000, 6_000_000}[seed%3]
		cfg := Config{TPM: limit, Burst: []time.Duration{0, 10, 30}[seed/3%3] * time.Second, MaxQueue: 100_000, Accounting: Accounting(seed / 9 % 3)}
		w := newWorld(t, seed, cfg, 1, 3)
		size := limit / 600
		for _, p := range w.tenants {
			p.cost = func(r *rand.Rand) int64 { return 1 + r.Int64N(2*size) }
			if seed%2 == 0 {
				p.actual = func(declared int64) int64 { return declared / 2 }
			}
		}
		for i := range 10 {
			for _, p := range w.tenants {
				p.workers = 4 * (i % 2) // a minute of calls that wait, and one of none
			}
			w.run(Window)
		}
		if got := float64(w.pool.Unused(w.now)) / float64(5*limit); got > 0.01 {
			t.Errorf("seed %d: %.2f %% of pool %+v were not handed out while calls waited", seed, 100*got, cfg)
		}
	}
}

// A pool that nobody asks anything of for a while has nothing unused.
func TestUnused_Idle(t *testing.T) {
	p := New(t0, Config{TPM: 60_000, MaxQueue: 10})
	leaf := p.Add(Root, Node{Weight: 1})
	p.Offer(t0, Call{Leaf: leaf, Most: Cost{100, 1}})
	if got := p.Unused(t0.Add(time.Hour)); got != 0 {
		t.Errorf("%d tokens are unused after an idle hour", got)
	}
}

func TestUnused_NobodyPumps(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(p *Pool)
		want int64 // tokens, of 1000 a second
	}{
		{"calls wait", func(*Pool) {}, 30_000 - 1000 - 2000},
		{"nothing is handed out", func(p *Pool) { p.Throttle(t0, WholePace, t0.Add(time.Hour)) }, 0},
		{"half of the rate is", func(p *Pool) { p.Throttle(t0, WholePace/2, time.Time{}) }, 15_000 - 1000 - 2000},
	} {
		for k, cfg := range map[Axis]Config{Tokens: {TPM: 60_000}, Input: {ITPM: 60_000, OTPM: 1e9}, Output: {ITPM: 1e9, OTPM: 60_000}} {
			cfg.MaxQueue = 10
			p := New(t0, cfg)
			leaf := p.Add(Root, Node{Weight: 1})
			offer := func(n int64) {
				call := Call{Leaf: leaf, Most: Cost{n, 1}, MaxWait: time.Hour}
				call.Most[k] = n
				if k == Input {
					call.Input = n
				}
				p.Offer(t0, call)
			}
			offer(900)
			c.do(p)
			offer(2000)
			p.Pump(t0, nil)
			for i := range 3000 {
				p.State(t0.Add(time.Duration(i+1) * 10 * time.Millisecond))
			}
			got := p.Unused(t0.Add(30 * time.Second))
			if fmt.Sprint(got/1500) != fmt.Sprint(c.want/1500) {
				t.Errorf("%s: %d %s are unused after 30 s, want some %d", c.what, got, k, c.want)
			}
		}
	}
}

// Calls of a leaf stand by priority, then those that have come back by their promise, then as they came.
func TestEnqueue_Order(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		p := New(t0, Config{TPM: MaxLimit})
		leaf := p.Add(Root, Node{Weight: 1})
		var want []int32
		for range 40 {
			n := p.put(entry{leaf: leaf, below: int8(rng.IntN(3)), back: rng.IntN(3) == 0, next: -1, prev: -1})
			e := &p.entries[n]
			if e.back {
				e.turn = t0.Add(time.Duration(rng.IntN(5)) * time.Second)
			}
			p.enqueue(n)
			at := slices.IndexFunc(want, func(o int32) bool { return e.goesBefore(&p.entries[o]) })
			if at < 0 {
				at = len(want)
			}
			want = slices.Insert(want, at, n)
		}
		list := p.nodes[leaf].calls[interactive]
		var got, back []int32
		for n := list.head; n >= 0; n = p.entries[n].next {
			got = append(got, n)
		}
		for n := list.tail; n >= 0; n = p.entries[n].prev {
			back = append(back, n)
		}
		slices.Reverse(back)
		if !slices.Equal(got, want) || !slices.Equal(back, want) {
			t.Fatalf("they stand as %v, and backwards as %v, want %v", got, back, want)
		}
	}
}

// One call of another priority, before or behind all others, does not have each that comes look at all that wait.
func TestEnqueue_LooksAtFew(t *testing.T) {
	for _, c := range []struct{ one, many, next int8 }{{9, 0, 0}, {0, 9, 0}, {0, 9, 9}} {
		p := New(t0, Config{TPM: MaxLimit})
		leaf := p.Add(Root, Node{Weight: 1})
		add := func(below int8) { p.enqueue(p.put(entry{leaf: leaf, below: below, next: -1, prev: -1})) }
		add(c.one)
		for range 100 {
			add(c.many)
		}
		list := &p.nodes[leaf].calls[interactive]
		n := list.head
		for i := range 98 {
			e := &p.entries[n]
			n = e.next
			if i >= 3 { // whoever goes on from here panics
				e.next, e.prev = 1<<20, 1<<20
			}
		}
		add(c.next)
	}
}
