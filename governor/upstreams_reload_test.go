package governor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/penalty"
	"github.com/llmgov/llmgov/governor/refusal"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// reloads is a pool that is reloaded between calls, and beside it a memory of the same calls that knows upstreams by their names alone.
type reloads struct {
	*rapid.T
	g     *Governor
	clock *late
	list  []Upstream // in force
	calls []*reloadCall
	fails map[failedAt]*penalty.Limit
	named int // upstreams so far
}

// failedAt is what a penalty is of.
type failedAt struct{ tenant, upstream string }

// reloadCall is a call of so many tokens, in the memory.
type reloadCall struct {
	tenant   string
	names    []string // of the upstreams that it asked for; nil is all
	may      []string // of these, those that it may use since the last reload; nil before it began to wait
	lease    Lease
	upstream string    // where it runs; "" while it waits, and in a pool without upstreams
	since    time.Time // when it began
	there    time.Time // when it began where it is
	takes    int64     // tokens there
	state    callState
	nowhere  bool // its upstream has left the list since
}

type callState int

const (
	callWaits callState = iota
	callRuns
	callEnded
	callVoid // it ended, and took no tokens
)

const (
	tokensEach  = 100
	slotsOfPool = 50
	ownSlots    = 4 // of tenant b
)

// TestUpstreams_Reloads: whatever a reload does to the list of upstreams between calls, each counts by its name: its use, the calls that
// run there, and the penalties of tenants; calls go where they may, and none waits for an upstream that has room.
func TestUpstreams_Reloads(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &reloads{T: r, clock: &late{now: time.Unix(1_000_000, 0)}, fails: map[failedAt]*penalty.Limit{}}
		for range 3 {
			w.list = append(w.list, w.newUpstream())
		}
		cfg := w.config()
		cfg.Clock = w.clock
		cfg.Recorded = true
		w.g = must(t, cfg)
		defer w.g.Drain() // and all that wait are refused
		r.Repeat(map[string]func(*rapid.T){
			"ask":     func(*rapid.T) { w.ask() },
			"settle":  func(*rapid.T) { w.end(w.settle) },
			"error":   func(*rapid.T) { w.end(w.mistake) },
			"fail":    func(*rapid.T) { w.end(w.fail) },
			"move":    func(*rapid.T) { w.end(w.move) },
			"reload":  func(*rapid.T) { w.reload() },
			"time":    func(*rapid.T) { w.pass() },
			"reload2": func(*rapid.T) { w.reload() },
			"ask2":    func(*rapid.T) { w.ask() },
			"": func(*rapid.T) {
				w.check()
				w.clock.now = w.clock.now.Add(time.Millisecond) // so that no two of these happen at the same time
			},
		})
	})
}

func (w *reloads) config() Config {
	return Config{
		Pools: []Pool{{Name: "p", Concurrency: slotsOfPool, PerTenant: true, MaxQueue: 1000, Upstreams: slices.Clone(w.list)}},
		Tenants: []Tenant{
			{Name: "a", Weight: 1, MaxWait: 100 * time.Hour},
			{Name: "b", Weight: 1, MaxWait: 100 * time.Hour, InPool: map[string]Limits{"p": {Concurrency: ownSlots}}},
		},
	}
}

// newUpstream is one with another name.
func (w *reloads) newUpstream() Upstream {
	w.named++
	return w.upstream(w.named)
}

// upstream is one with limits, of which that on tokens may be less than a call. Tokens that were not limited have not been counted, so
// every other upstream never has such a limit.
func (w *reloads) upstream(n int) Upstream {
	u := Upstream{
		Name:   fmt.Sprint("u", n),
		Weight: rapid.Int64Range(1, 3).Draw(w.T, "weight"), Order: rapid.Int64Range(0, 1).Draw(w.T, "order"),
		Concurrency: rapid.Int64Range(1, 6).Draw(w.T, "concurrency"),
	}
	if n%2 == 0 {
		u.TPM = rapid.SampledFrom([]int64{tokensEach / 2, 3 * tokensEach, 8 * tokensEach}).Draw(w.T, "tpm")
	}
	return u
}

func (w *reloads) find(name string) *Upstream {
	i := slices.IndexFunc(w.list, func(u Upstream) bool { return u.Name == name })
	if i < 0 {
		return nil
	}
	return &w.list[i]
}

func namesOf(list []Upstream) (names []string) {
	for _, u := range list {
		names = append(names, u.Name)
	}
	return names
}

// left are those of some names that are in the list, all if none is.
func (w *reloads) left(names []string) (left []string) {
	for _, u := range w.list {
		if slices.Contains(names, u.Name) {
			left = append(left, u.Name)
		}
	}
	if left == nil {
		return namesOf(w.list)
	}
	return left
}

// able are those of some upstreams that take most of a call.
func (w *reloads) able(names []string) (able []string) {
	most := int64(0)
	for _, name := range names {
		most = max(most, takes(w.find(name)))
	}
	for _, name := range names {
		if takes(w.find(name)) == most {
			able = append(able, name)
		}
	}
	return able
}

func takes(u *Upstream) int64 {
	if u.TPM == 0 {
		return tokensEach
	}
	return min(u.TPM, tokensEach)
}

func (w *reloads) ask() {
	c := &reloadCall{tenant: rapid.SampledFrom([]string{"a", "a", "b"}).Draw(w.T, "tenant")}
	req := demand(c.tenant, tokensEach)
	req.Conversation = rapid.Uint64Range(0, 4).Draw(w.T, "conversation")
	if len(w.list) > 0 {
		req.Via = rapid.Uint64Range(0, 1<<len(w.list)-1).Draw(w.T, "via")
		for i, name := range namesOf(w.list) {
			if req.Via&(1<<i) != 0 {
				c.names = append(c.names, name)
			}
		}
		if req.Via != 0 && rapid.Bool().Draw(w.T, "listed otherwise") { // by a policy that is not in force
			req.Listed = append([]string{"gone"}, namesOf(w.list)...)
			req.Via <<= 1
		}
	}
	c.may = w.left(c.names)
	w.calls = append(w.calls, c)
	w.g.Ask(req, func(l Lease, rej *Refusal) {
		if rej != nil {
			if rej.Reason != ReasonDraining {
				w.Fatalf("a call is refused: %v", rej)
			}
			return
		}
		c.lease = l
		c.state = callRuns
		c.since = l.g.line.now
		c.there = c.since
	})
	w.settleDown()
}

// settleDown notes where calls run that have begun, and sees that they may.
func (w *reloads) settleDown() {
	var at []string
	for _, c := range w.calls {
		if c.state != callRuns || c.upstream != "" || c.nowhere || len(w.list) == 0 {
			continue
		}
		c.upstream = c.lease.Upstream()
		c.takes = takes(w.find(c.upstream))
		at = append(at, c.upstream)
		allowed := w.able(c.may)
		if c.tenant == "b" { // it may have begun to wait here when it had waited in its own line
			allowed = append(allowed, w.able(w.left(c.names))...)
		}
		if !slices.Contains(allowed, c.upstream) {
			w.Fatalf("a call of %s for %v, that may use %v of %v, begins at %q", c.tenant, c.names, c.may, w.list, c.upstream)
		}
		if most := w.most(c.tenant, c.upstream); most > 0 && w.runningOf(c.tenant, c.upstream) > most {
			w.Fatalf("a call of %s begins at %s beside %d others, and may not", c.tenant, c.upstream, most)
		}
	}
	for _, name := range at {
		u := w.find(name)
		if running := w.running(name); running > u.Concurrency {
			w.Fatalf("%d calls run at %s, which has %d slots", running, name, u.Concurrency)
		}
		if tokens := w.tokens(u, escrow.Window); u.TPM > 0 && tokens > u.TPM {
			w.Fatalf("%d tokens in a minute at %s, which has %d", tokens, name, u.TPM)
		}
	}
}

// running are the calls that run at an upstream.
func (w *reloads) running(name string) (n int64) {
	for _, c := range w.calls {
		if c.state == callRuns && c.upstream == name {
			n++
		}
	}
	return n
}

// runningOf are the calls of a tenant there that count for it.
func (w *reloads) runningOf(tenant, name string) (n int64) {
	for _, c := range w.calls {
		if c.state == callRuns && c.tenant == tenant && !c.nowhere && c.upstream == name {
			n++
		}
	}
	return n
}

// tokens are those of an upstream in some time.
func (w *reloads) tokens(u *Upstream, within time.Duration) (n int64) {
	for _, c := range w.calls {
		if c.upstream == u.Name && (c.state == callRuns || c.state == callEnded) && w.clock.now.Sub(c.there) < within {
			n += c.takes
		}
	}
	return n
}

func (w *reloads) most(tenant, name string) int64 {
	f := w.fails[failedAt{tenant, name}]
	if f == nil {
		return 0
	}
	return f.Most(w.clock.now)
}

func (w *reloads) end(how func(*reloadCall)) {
	var running []*reloadCall
	for _, c := range w.calls {
		if c.state == callRuns {
			running = append(running, c)
		}
	}
	if len(running) == 0 {
		w.Skip("none runs")
	}
	how(rapid.SampledFrom(running).Draw(w.T, "call"))
	w.settleDown()
}

func (w *reloads) settle(c *reloadCall) {
	if f := w.fails[failedAt{c.tenant, c.upstream}]; f != nil && !c.nowhere {
		all := int64(slotsOfPool)
		if u := w.find(c.upstream); u != nil {
			all = min(all, u.Concurrency)
		}
		f.Succeeded(w.clock.now, w.runningOf(c.tenant, c.upstream), all)
	}
	c.state = callEnded
	c.lease.Settle(Usage{Output: max(c.takes, 1)})
}

// mistake is an error of the caller's.
func (w *reloads) mistake(c *reloadCall) {
	c.state = callVoid
	c.lease.Settle(Usage{})
}

func (w *reloads) failed(c *reloadCall) {
	if !c.nowhere {
		at := failedAt{c.tenant, c.upstream}
		if w.fails[at] == nil {
			w.fails[at] = &penalty.Limit{}
		}
		w.fails[at].Failed(w.clock.now, c.since, w.runningOf(c.tenant, c.upstream))
	}
	c.lease.Failed()
}

func (w *reloads) fail(c *reloadCall) {
	w.failed(c)
	c.state = callVoid
	c.lease.Break(Usage{})
}

// move sends a call that failed to another upstream.
func (w *reloads) move(c *reloadCall) {
	w.failed(c)
	among := rapid.SliceOfDistinct(rapid.SampledFrom(append(namesOf(w.list), "gone")), rapid.ID).Draw(w.T, "among")
	able := slices.DeleteFunc(slices.Clone(among), func(name string) bool { return w.find(name) == nil })
	if w.find(c.upstream) != nil && !c.nowhere && !slices.Contains(able, c.upstream) {
		able = append(able, c.upstream)
	}
	if len(able) > 0 {
		able = slices.DeleteFunc(w.able(able), func(name string) bool { return !slices.Contains(among, name) || !w.hasRoom(c.tenant, name) })
	}
	name, ok := c.lease.Move(among, Usage{}, true)
	if ok != (len(able) > 0) || ok && !slices.Contains(able, name) {
		w.Fatalf("a call at %q moves to %q among %v, %v; it may to %v", c.upstream, name, among, ok, able)
	}
	if ok {
		c.upstream = name
		c.nowhere = false
		c.there = w.clock.now
		c.takes = takes(w.find(name))
	}
}

// hasRoom reports whether a call of a tenant may begin at an upstream.
func (w *reloads) hasRoom(tenant, name string) bool {
	u := w.find(name)
	const quarter = 250 * time.Millisecond // in which time is counted
	most := w.most(tenant, name)
	return w.running(name) < u.Concurrency &&
		(u.TPM == 0 || w.tokens(u, escrow.Window+quarter)+takes(u) <= u.TPM) &&
		(most == 0 || w.runningOf(tenant, name) < most)
}

func (w *reloads) reload() {
	some := func() int { return rapid.IntRange(0, len(w.list)-1).Draw(w.T, "upstream") }
	kind := rapid.SampledFrom([]string{"reorder", "reorder", "add", "remove", "change", "rename", "return"}).Draw(w.T, "reload")
	w.list = slices.Clone(w.list)
	switch {
	case kind == "return":
		n := rapid.IntRange(1, w.named).Draw(w.T, "returns")
		if w.find(fmt.Sprint("u", n)) == nil {
			w.list = append(w.list, w.upstream(n))
		}
	case kind == "add" || len(w.list) == 0:
		w.list = slices.Insert(w.list, rapid.IntRange(0, len(w.list)).Draw(w.T, "place"), w.newUpstream())
	case kind == "reorder":
		w.list = rapid.Permutation(w.list).Draw(w.T, "list")
	case kind == "remove":
		i := some()
		w.list = slices.Delete(w.list, i, i+1)
	case kind == "change":
		u := &w.list[some()]
		n := 0
		_, _ = fmt.Sscanf(u.Name, "u%d", &n)
		*u = w.upstream(n)
	case kind == "rename":
		w.list[some()] = w.newUpstream()
	}
	w.apply()
}

// apply puts the list in force.
func (w *reloads) apply() {
	for _, c := range w.calls {
		if c.state == callRuns && w.find(c.upstream) == nil {
			c.nowhere = true
		}
		if len(w.list) == 0 { // the pool counts as one, and forgets where they were
			c.upstream = ""
			c.nowhere = false
		}
		c.may = w.left(c.may)
	}
	for at := range w.fails {
		if w.find(at.upstream) == nil && (at.upstream != "" || len(w.list) > 0) {
			delete(w.fails, at)
		}
	}
	testkit.OK(w, w.g.Apply(w.config()))
	w.settleDown()
}

func (w *reloads) pass() {
	w.clock.now = w.clock.now.Add(rapid.SampledFrom([]time.Duration{
		time.Millisecond, time.Second, 20 * time.Second, time.Minute, 5 * time.Minute,
	}).Draw(w.T, "passes"))
	w.g.State()
	w.settleDown()
}

// check compares all that is told with the memory.
func (w *reloads) check() {
	p := w.g.table.pools["p"]
	testkit.OK(w, p.escrow.Check())
	for _, u := range w.g.Upstreams("p") {
		if running := w.running(u.Name); u.Used.Concurrency != running {
			w.Fatalf("%d calls run at %s, want %d", u.Used.Concurrency, u.Name, running)
		}
	}
	for _, tenant := range []string{"a", "b"} {
		w.checkPenalties(tenant)
	}
	w.checkWaits()
}

func (w *reloads) checkPenalties(tenant string) {
	names := namesOf(w.list)
	if len(names) == 0 {
		names = []string{""}
	}
	for i, name := range names {
		o, _ := w.g.Explain(Request{Tenant: tenant, Pool: "p", Via: 1 << i})
		may := int64(0)
		runs := int64(0)
		for _, c := range o.Checks {
			if c.Axis == refusal.AxisPerTenant {
				may = c.Limit
				runs = c.Used
			}
		}
		most := w.most(tenant, name)
		if may != most || most > 0 && runs != w.runningOf(tenant, name) {
			w.Fatalf("tenant %s may run %d at %q, and runs %d; want %d and %d", tenant, may, name, runs, most, w.runningOf(tenant, name))
		}
	}
}

// checkWaits finds calls that wait for nothing. The others of a tenant wait behind its first.
func (w *reloads) checkWaits() {
	open := map[string]int{}
	for _, c := range w.calls {
		if c.state < callEnded {
			open[c.tenant]++
		}
	}
	first := map[string]bool{}
	for _, c := range w.calls {
		if c.state != callWaits || first[c.tenant] || c.tenant == "b" && open["b"] > ownSlots {
			continue
		}
		first[c.tenant] = true
		for _, name := range w.able(c.may) {
			if w.hasRoom(c.tenant, name) {
				w.Fatalf("a call of %s for %s waits, and %s has room", c.tenant, strings.Join(c.names, ", "), name)
			}
		}
	}
}
