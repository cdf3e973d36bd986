package plan

import (
	"bytes"
	"compress/gzip"
	"container/heap"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/ops/decisions"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// The corpus are logs of calls by random policies, with all that a policy has and all that can happen to a call. They are never written by
// hand, and written anew (-update) only where decisions are meant to change.
const corpus = "testdata/decisions"

var update = flag.Bool("update", false, "write the corpus of decision logs anew")

// Each decision of the corpus is made again as it was, to the nanosecond and the token: a change that flips one is seen. Seen to fail where a
// call that leaves its line wakes nobody, and where one that waits keeps its costs booked.
func TestCorpus(t *testing.T) {
	const logs = 60
	if *update {
		testkit.OK(t, os.RemoveAll(corpus))
		testkit.OK(t, os.MkdirAll(corpus, 0o755))
		for seed := range uint64(logs) {
			testkit.OK(t, os.WriteFile(filepath.Join(corpus, fmt.Sprintf("%02d.jsonl.gz", seed)), written(t, seed), 0o644))
		}
	}
	names := testkit.Must(filepath.Glob(corpus + "/*.jsonl.gz"))(t)
	met := map[string]int{}
	calls := 0
	for _, name := range names {
		run := unpacked(t, name, met)
		calls += len(run.Calls)
		sameAgain(t, name, run)
	}
	t.Logf("%d calls of %d logs: %v", calls, len(names), met)
	kinds := []decisions.Kind{
		decisions.Started, decisions.Asked, decisions.Admitted, decisions.Refused, decisions.Left, decisions.Progress, decisions.Ended, decisions.Throttled,
		decisions.Applied, decisions.Drained, decisions.Overload, decisions.Late, decisions.Retried, decisions.Failed, decisions.Moved, decisions.Loaded,
	}
	for _, k := range kinds {
		if met[string(k)] == 0 {
			t.Errorf("no line is of kind %q", k)
		}
	}
	for r := governor.ReasonRequests; int(r) < governor.NumReasons; r++ {
		if met["refused for "+r.String()] == 0 && r != governor.ReasonStore && r != governor.ReasonStoreLost { // these are of no policy
			t.Errorf("no call is refused for %q", r)
		}
	}
	if len(names) != logs || calls < 100*logs {
		t.Errorf("it has %d calls in %d logs", calls, len(names))
	}
}

// sameAgain has a run decided again, and fails if a call comes out otherwise.
func sameAgain(t *testing.T, name string, run *Run) {
	t.Helper()
	results := testkit.Must(run.Replay(run.OwnPolicy()))(t)
	differ := 0
	for i, c := range run.Calls {
		if c.Decided.Same(&results[i].Decision) {
			continue
		}
		if differ++; differ < 3 {
			t.Errorf("%s: call %d of %s at %d: %+v %+v, now %+v %+v", name, c.Number, c.Request.Tenant, c.At, c.Decided, c.Decided.Why, results[i].Decision, results[i].Why)
		}
	}
	if differ > 0 {
		t.Errorf("%s: %d of %d calls are decided otherwise", name, differ, len(results))
	}
}

// unpacked reads a log of the corpus, and counts what is in it.
func unpacked(t *testing.T, name string, met map[string]int) *Run {
	packed := testkit.Must(os.Open(name))(t)
	defer packed.Close()
	text := testkit.Must(gzip.NewReader(packed))(t)
	plain := filepath.Join(t.TempDir(), "decisions.jsonl")
	file := testkit.Must(os.Create(plain))(t)
	testkit.Must(file.ReadFrom(text))(t)
	testkit.OK(t, file.Close())
	for line, err := range decisions.Read([]string{plain}) {
		testkit.OK(t, err)
		met[string(line.Kind)]++
		if line.Told != nil {
			met[string(line.Told.Verb)]++
		}
		if line.Kind == decisions.Refused {
			met["refused for "+line.Why.Reason]++
		}
	}
	return read(t, plain)
}

// written is a log of the corpus, packed.
func written(t *testing.T, seed uint64) []byte {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	w := testkit.Must(decisions.Open(decisions.Options{Path: path, MaxSize: 1 << 30, Keep: 1, Log: slog.New(slog.DiscardHandler)}))(t)
	origin := time.Date(2026, 11, 30, 23, 57, 0, 0, time.UTC) // a month ends soon
	v := &course{r: rand.New(rand.NewPCG(seed, 44)), eyes: rand.New(rand.NewPCG(seed, 45)), clock: &clock{origin: origin, now: origin}}
	v.cfg = v.config()
	cfg := v.cfg
	cfg.Clock = v.clock
	cfg.Observer = w
	cfg.Recorded = true
	if v.chance(30) {
		cfg.Past = v.past()
	}
	v.gov = testkit.Must(governor.New(cfg))(t)
	v.live()
	testkit.OK(t, w.Close())
	if w.Lost() > 0 {
		t.Fatalf("%d lines are lost", w.Lost())
	}
	return packed(t, path)
}

// packed is a file, packed.
func packed(t *testing.T, path string) []byte {
	var packed bytes.Buffer
	z := testkit.Must(gzip.NewWriterLevel(&packed, gzip.BestCompression))(t)
	testkit.Must(z.Write(testkit.Must(os.ReadFile(path))(t)))(t)
	testkit.OK(t, z.Close())
	return packed.Bytes()
}

// course is a random policy, and what happens under it.
type course struct {
	r      *rand.Rand
	eyes   *rand.Rand // of who looks
	clock  *clock
	gov    *governor.Governor
	cfg    governor.Config
	inputs inputs
	told   int64
	calls  int
	leases []governor.Lease
}

func (v *course) chance(percent int) bool { return v.r.IntN(100) < percent }

// some is one of a few amounts, of which 0 is none.
func (v *course) some(percent int, amounts ...int64) int64 {
	if !v.chance(percent) {
		return 0
	}
	return amounts[v.r.IntN(len(amounts))]
}

func (v *course) span(most time.Duration) time.Duration {
	return time.Duration(v.r.Int64N(int64(most)))
}

// after has something happen so much later.
func (v *course) after(d time.Duration, f func()) {
	v.told++
	heap.Push(&v.inputs, input{int64(v.clock.now.Sub(v.clock.origin) + d), v.told, func() error { f(); return nil }})
}

func (v *course) live() {
	at := time.Duration(0)
	for n := range 150 {
		at += v.span(time.Second / 2)
		if n%40 == 39 {
			at += v.span(3 * time.Minute)
		}
		v.after(at, func() { v.call(v.request()) })
		if v.eyes.IntN(3) == 0 {
			v.after(at, v.look)
		}
		if v.chance(10) {
			v.after(at, v.change)
		}
	}
	v.after(at+v.span(20*time.Second), v.gov.Drain)
	for len(v.inputs) > 0 {
		if v.clock.ringBefore(v.inputs[0].at) {
			continue
		}
		in := heap.Pop(&v.inputs).(input)
		v.clock.moveTo(in.at)
		_ = in.tell()
	}
}

func (v *course) config() governor.Config {
	for {
		c := governor.Config{Revision: fmt.Sprint(v.told), Zone: time.UTC, Pools: []governor.Pool{v.pool("p"), v.pool("q")}}
		for _, name := range []string{"a", "a/x", "a/y", "a/y/z", "b", "c", "d", "e", "m"} {
			c.Tenants = append(c.Tenants, v.tenant(name))
		}
		if c.Validate() == nil {
			return c
		}
	}
}

func (v *course) pool(name string) governor.Pool {
	p := governor.Pool{
		Name: name, TPM: v.some(80, 30_000, 90_000, 600_000), RPM: v.some(30, 40, 300), ITPM: v.some(20, 20_000, 90_000), OTPM: v.some(20, 20_000, 90_000),
		Concurrency: v.some(60, 2, 5, 12), Accounting: escrow.Accounting(v.r.IntN(3)), MaxQueue: int(v.some(80, 3, 10, 40)), PerTenant: v.chance(20),
		InteractiveReserve: v.some(30, 1, 2), SoftCapPPM: v.some(20, 500_000, 700_000), HoldBackPPM: v.some(20, 250_000), HeadroomPPM: v.some(20, 50_000),
		Burst: time.Duration(v.some(80, 1, 5, 60)) * time.Second, TicketWait: time.Duration(v.some(50, 1, 5)) * time.Second, Budgets: v.budgets(),
	}
	if v.chance(35) {
		p.Adaptive = adaptive.Law(1 + v.r.IntN(2))
		p.MinConcurrency = 1
	}
	if v.chance(20) {
		p.Weights = governor.TokenWeights{Input: 1, CachedInput: 0.1, Output: 4, Reasoning: 4, Audio: 2, HeldOutput: float64(v.some(50, 5))}
	}
	for i := range v.some(40, 1, 2, 3) {
		p.Upstreams = append(p.Upstreams, governor.Upstream{
			Name: fmt.Sprint("u", i), Weight: 1 + v.r.Int64N(3), Order: v.r.Int64N(2),
			TPM: v.some(60, 10_000, 40_000), RPM: v.some(20, 20), Concurrency: v.some(30, 1, 3),
		})
	}
	return p
}

func (v *course) budgets() (list []governor.Budget) {
	for unit, limit := range []int64{40_000, 40, 300_000} {
		if v.chance(12) {
			list = append(list, governor.Budget{Unit: governor.Unit(unit), Limit: limit + v.r.Int64N(limit), Per: []budget.Period{budget.Hour, budget.Day, budget.Month}[v.r.IntN(3)]})
		}
	}
	return list
}

func (v *course) limits() (l governor.Limits) {
	l = governor.Limits{TPM: v.some(20, 8_000, 60_000), RPM: v.some(20, 5, 60), ITPM: v.some(10, 9_000), OTPM: v.some(10, 9_000), Concurrency: v.some(20, 1, 3)}
	if v.chance(15) {
		per := []time.Duration{10 * time.Second, time.Minute, time.Hour}[v.r.IntN(3)]
		l.Windows = []terms.Limit{{Of: limits.Axis(v.r.IntN(2)), Rule: shape.Rule{Kind: shape.Kind(v.r.IntN(4)), Amount: 20_000 + v.r.Int64N(20_000), Per: per}}}
	}
	return l
}

func (v *course) tenant(name string) governor.Tenant {
	t := governor.Tenant{Name: name, Tier: "gold", Weight: escrow.Weight(1 + v.r.IntN(4)), MaxWait: time.Duration(v.some(70, 1, 3, 20, 90)) * time.Second, Budgets: v.budgets()}
	l := v.limits()
	terms.Set(&t, &l)
	t.Windows = l.Windows
	t.Shadow = name == "c"
	t.Background = v.chance(15)
	t.Below = int(v.some(20, 1, 2))
	t.Floor = v.some(15, 3_000)
	t.Credit = time.Duration(v.some(20, 10)) * time.Second
	if v.chance(20) {
		t.InPool = map[string]governor.Limits{"p": v.limits()}
	}
	switch name {
	case "d", "e":
		t.Group = "g"
	case "m":
		t.Members = &governor.Members{Each: governor.Tenant{Weight: 1, RPM: v.some(40, 6), Concurrency: v.some(30, 1), Budgets: v.budgets()}}
	case "b":
		if v.chance(20) {
			t.Pools = []string{"p"}
		}
	}
	return t
}

// past is that of a process which had calls in the last minute.
func (v *course) past() *record.Past {
	now := v.clock.now
	past := record.NewPast(now, time.UTC)
	for n := range uint64(20) {
		began := now.Add(-v.span(time.Minute))
		r := record.Record{Kind: record.Admitted, Call: n + 1, Tenant: []string{"a/x", "b", "d"}[n%3], Pool: "p", Held: began, Began: began}
		r.Booked = record.Charge{Pool: escrow.Cost{900, 1}, Own: limits.Cost{1, 900}, Spend: terms.Spend{900, 1}}
		past.Read(r)
		past.Uses.Read(&r)
	}
	return past
}

func (v *course) request() governor.Request {
	v.calls++
	names := []string{"a", "a", "a/x", "a/y", "a/y/z", "b", "b", "c", "d", "e", "m", "m/~ann", "m/~bob"}
	r := governor.Request{
		ID: fmt.Sprint(v.calls), Tenant: names[v.r.IntN(len(names))], Pool: []string{"p", "p", "q"}[v.r.IntN(3)], Model: []string{"", "x", "y"}[v.r.IntN(3)],
		Input: v.r.Int64N(2_000), Output: v.r.Int64N(3_000), Stream: v.chance(50), Background: v.chance(15), Below: int(v.some(20, 1, 2)),
		Forced: v.chance(3), BudgetsOnly: v.chance(4), Told: v.chance(5), Pause: time.Duration(v.some(5, 1, 4)) * time.Second,
		Conversation: uint64(v.some(40, 1, 2, 3)), Claim: escrow.Claim{Key: uint64(v.calls)},
	}
	if v.chance(2) {
		r.Tenant = "nobody"
	}
	if v.chance(50) {
		r.Price = &governor.Price{Input: 2_000_000, CachedInput: 200_000, Output: 8_000_000}
	}
	for _, p := range v.cfg.Pools {
		if n := len(p.Upstreams); p.Name == r.Pool && n > 1 && v.chance(30) { // some of them, but not all
			r.Via = 1 + v.r.Uint64N(1<<n-2)
		}
	}
	if v.chance(20) {
		wait := v.span(10 * time.Second)
		r.MaxWait = &wait
	}
	return r
}

// call asks for a call. It may come back when it is told to.
func (v *course) call(r governor.Request) {
	patient := v.chance(40)
	leave := v.gov.Ask(r, func(l governor.Lease, rej *governor.Refusal) {
		switch {
		case rej == nil:
			v.runs(r, l)
		case patient && rej.RetryAfter < time.Minute && r.Claim.Retry != escrow.RetryAgain:
			r.Claim.Retry = escrow.RetryAgain
			v.after(rej.RetryAfter+v.span(100*time.Millisecond), func() { v.call(r) })
		}
	})
	if v.chance(12) {
		v.after(v.span(4*time.Second), leave)
	}
}

// runs is the life of a call that goes.
func (v *course) runs(r governor.Request, l governor.Lease) {
	v.leases = append(v.leases, l)
	at := v.span(4 * time.Second)
	produced := int64(0)
	for range v.r.IntN(4) {
		at += v.span(4 * time.Second)
		produced += v.r.Int64N(r.Output/3 + 1)
		steps := []func(){l.Overloaded, l.Late, l.Retried, l.Failed, func() { l.Move(nil, governor.Usage{Output: produced}, true) }}
		step := func() { l.Progress(produced) }
		if v.chance(20) {
			step = steps[v.r.IntN(len(steps))]
		}
		v.after(at, step)
	}
	u := governor.Usage{Input: r.Input, CachedInput: v.some(30, r.Input/2), Output: max(produced, v.r.Int64N(r.Output*5/4+1)), Reasoning: produced / 3}
	v.after(at+v.span(4*time.Second), func() {
		switch k := v.r.IntN(20); {
		case r.Forced && k < 10:
			l.Charge(u)
		case k == 0 && !r.Forced && !r.BudgetsOnly:
			l.Postpone()
			done := r
			done.Forced = true
			done.Booked = governor.Booked{Input: r.Input, Output: r.Output}
			v.after(v.span(time.Minute), func() { v.call(done) })
		case k < 3:
			l.Break(u)
		case k < 5:
			l.Release()
		default:
			l.Settle(u)
		}
	})
}

// look asks what changes nothing.
func (v *course) look() {
	v.gov.State()
	v.gov.Standing("a/x", "p")
	v.gov.Explain(governor.Request{Tenant: []string{"a/y", "d", "e"}[v.eyes.IntN(3)], Pool: "p", Output: 500})
	if len(v.leases) > 0 {
		v.leases[v.eyes.IntN(len(v.leases))].Remaining()
	}
}

// change puts another policy or other cuts in force, or tells the load of servers.
func (v *course) change() {
	pool := []string{"p", "q"}[v.r.IntN(2)]
	switch v.r.IntN(4) {
	case 0:
		v.gov.ServersLoaded(pool, governor.Load{Running: v.r.Int64N(6), Waiting: v.r.Int64N(3), Full: v.r.Float64()})
	case 1:
		var cuts []governor.Cut
		for range 1 + v.r.IntN(2) {
			c := governor.Cut{Part: v.some(60, governor.Whole/3, governor.Whole), TPM: v.some(30, 5_000), RPM: v.some(20, 10), Until: v.clock.now.Add(v.span(15 * time.Second))}
			if v.chance(30) {
				c.Upstream = "u0"
			}
			cuts = append(cuts, c)
		}
		v.gov.Throttle(pool, cuts)
	default:
		v.apply()
	}
}

// apply changes some of the policy.
func (v *course) apply() {
	next := v.cfg
	fresh := v.config()
	next.Revision = fmt.Sprint("revision ", v.told)
	next.Tenants = slices.Clone(next.Tenants)
	next.Pools = slices.Clone(next.Pools)
	for i := range next.Tenants {
		if v.chance(25) {
			next.Tenants[i] = fresh.Tenants[i]
		}
	}
	for i := range next.Pools {
		if v.chance(25) {
			next.Pools[i] = fresh.Pools[i]
		}
	}
	gone := []string{"b", "a/y", "m", "d", "", "", "", ""}[v.r.IntN(8)]
	v.cfg = next
	next.Tenants = slices.DeleteFunc(slices.Clone(next.Tenants), func(t governor.Tenant) bool { return gone != "" && strings.HasPrefix(t.Name, gone) })
	if v.chance(6) {
		next.Pools = next.Pools[:1]
		for i := range next.Tenants {
			next.Tenants[i].Pools = nil
			next.Tenants[i].InPool = maps.Clone(next.Tenants[i].InPool)
			delete(next.Tenants[i].InPool, "q")
		}
	}
	_ = v.gov.Apply(next) // one that is not valid changes nothing
}
