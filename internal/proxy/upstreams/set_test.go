package upstreams

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/lib/affinity"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

var t0 = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

func setOf(weights ...int64) *Set {
	var list []Spec
	for i, w := range weights {
		list = append(list, Spec{Name: string(rune('a' + i)), Weight: w})
	}
	return New(list, nil)
}

// Weights 5, 1 and 1 go a a b a c a a, for ever, and never five in a row at once.
func TestChoose_Smooth(t *testing.T) {
	s := setOf(5, 1, 1)
	got := ""
	for range 14 {
		got += s.Members[s.Choose(t0, s.All(), Scope{}, "", affinity.None).Index].Name
	}
	if want := "aabacaaaabacaa"; got != want {
		t.Errorf("calls go %s, want %s", got, want)
	}
}

// Whatever the weights and whoever may be asked, nobody is further from its part than
// one call for each of the others, and nobody is asked who may not.
func TestChoose_Weights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Int64Range(1, 1000), 1, 8).Draw(t, "weights")
		s := setOf(weights...)
		among := Mask(rapid.Uint64Range(1, 1<<len(weights)-1).Draw(t, "among"))
		total := int64(0)
		calls := int64(500)
		got := make([]int64, len(weights))
		for i, w := range weights {
			if among>>i&1 == 1 {
				total += w
			}
		}
		for range calls {
			c := s.Choose(t0, among, Scope{}, "", affinity.None)
			if !c.OK || among>>c.Index&1 == 0 {
				t.Fatalf("%+v of %b", c, among)
			}
			got[c.Index]++
		}
		for i, w := range weights {
			if fair := float64(calls) * float64(w) / float64(total); among>>i&1 == 1 && (float64(got[i]) < fair-8 || float64(got[i]) > fair+8) {
				t.Errorf("weight %d of %d got %d of %d calls", w, total, got[i], calls)
			}
		}
	})
}

// Those of a higher order are spare: they get calls only while none of a lower order is ready.
func TestChoose_Order(t *testing.T) {
	s := New([]Spec{{Name: "c", Weight: 1, Order: 3}, {Name: "a", Weight: 2}, {Name: "b", Weight: 1}, {Name: "d", Weight: 1, Order: 1}}, nil)
	pause := func(name string, at, d time.Duration) {
		for _, m := range s.Members {
			if m.Name == name {
				m.Report(t0.Add(at), Result{Outcome: Busy, Retry: d})
			}
		}
	}
	calls := func(at time.Duration, among Mask) (got string) {
		for range 3 {
			c := s.Choose(t0.Add(at), among, Scope{}, "", affinity.None)
			if !c.OK {
				return got + " none before " + c.At.Sub(t0).String()
			}
			got += s.Members[c.Index].Name
		}
		return got
	}
	for _, step := range []struct {
		at    time.Duration
		pause string
		among Mask
		want  string
	}{
		{at: 0, among: s.All(), want: "aba"},
		{at: 1 * time.Second, pause: "a", among: s.All(), want: "bbb"},
		{at: 2 * time.Second, pause: "b", among: s.All(), want: "ddd"},
		{at: 3 * time.Second, pause: "d", among: s.All(), want: "ccc"},
		{at: 4 * time.Second, pause: "c", among: s.All(), want: " none before 11s"},
		{at: 11 * time.Second, among: s.All(), want: "aaa"},
		{at: 14 * time.Second, among: s.All(), want: "aba"},
		{at: 15 * time.Second, among: 0b1001, want: "ddd"},
	} {
		if step.pause != "" {
			pause(step.pause, step.at, 10*time.Second)
		}
		if got := calls(step.at, step.among); got != step.want {
			t.Errorf("at %v calls go %q, want %q", step.at, got, step.want)
		}
	}
}

// step is one report, or one look, at a time.
type step struct {
	at      time.Duration
	tenant  string
	outcome Outcome
	times   int
	began   time.Duration
	probe   bool
	up      bool
	ready   bool
}

func TestBreaker(t *testing.T) {
	for name, steps := range map[string][]step{
		"one error does nothing":        {{at: 0, outcome: Failed, times: 1, up: true, ready: true}},
		"four do nothing":               {{at: 0, outcome: Silent, times: 4, up: true, ready: true}},
		"five open it":                  {{at: 0, outcome: Failed, times: 5}},
		"under half do not":             {{at: 0, outcome: Served, times: 6, up: true, ready: true}, {at: 1, outcome: Failed, times: 5, up: true, ready: true}},
		"half do":                       {{at: 0, outcome: Served, times: 5, up: true, ready: true}, {at: 1, outcome: Failed, times: 5}},
		"what is old does not count":    {{at: 0, outcome: Failed, times: 4, up: true, ready: true}, {at: 31, outcome: Failed, times: 4, up: true, ready: true}},
		"busy is no failure":            {{at: 0, outcome: Abandoned, times: 50, up: true, ready: true}, {at: 1, outcome: Failed, times: 4, up: true, ready: true}},
		"open for five seconds":         {{at: 0, outcome: Failed, times: 5}, {at: 4}, {at: 5, ready: true}},
		"a probe that works closes it":  {{at: 0, outcome: Failed, times: 5}, {at: 5, outcome: Served, times: 1, probe: true, up: true, ready: true}, {at: 6, outcome: Failed, times: 4, up: true, ready: true}},
		"a probe that fails doubles it": {{at: 0, outcome: Failed, times: 5}, {at: 5, outcome: Failed, times: 1, probe: true}, {at: 14}, {at: 15, ready: true}},
		"each that lasts doubles it":    {{at: 0, outcome: Failed, times: 5}, {at: 5, probe: true}, {at: 9}, {at: 10, probe: true}, {at: 19}, {at: 20, probe: true}, {at: 39}, {at: 40, ready: true}},
		"one that is given up does not": {{at: 0, outcome: Failed, times: 5}, {at: 5, outcome: Abandoned, times: 1, probe: true, ready: true}, {at: 6, probe: true}, {at: 11, ready: true}},
		"late answers close nothing":    {{at: 1, outcome: Failed, times: 5}, {at: 7, outcome: Served, times: 3, ready: true}},
		"nor do those of no probe":      {{at: 1, outcome: Failed, times: 5}, {at: 3, outcome: Served, times: 9, began: 2}},
		"their failures do nothing":     {{at: 1, outcome: Failed, times: 5}, {at: 3, outcome: Failed, times: 9, began: 2}, {at: 6, ready: true}},
		"a late probe of before":        {{at: 0, outcome: Failed, times: 5}, {at: 5, outcome: Served, times: 1, probe: true, up: true, ready: true}, {at: 6, outcome: Failed, times: 5}, {at: 7, outcome: Failed, times: 1, began: 5}, {at: 11, ready: true}},
		"a clock that was put back":     {{at: 9999, outcome: Served, times: 9, up: true, ready: true}, {at: 0, outcome: Failed, times: 5}},
		"one tenant's alone do not":     {{at: 0, tenant: "b", outcome: Served, times: 1, up: true, ready: true}, {at: 1, tenant: "a", outcome: Failed, times: 90, up: true, ready: true}, {at: 2, tenant: "a/team", outcome: Silent, times: 90, up: true, ready: true}},
		"two tenants' do":               {{at: 0, tenant: "c", outcome: Served, times: 9, up: true, ready: true}, {at: 1, tenant: "a", outcome: Failed, times: 90, up: true, ready: true}, {at: 2, tenant: "b", outcome: Failed, times: 1}},
		"if others were long ago":       {{at: 0, tenant: "b", outcome: Served, times: 9, up: true, ready: true}, {at: 31, tenant: "a", outcome: Failed, times: 5}},
		"many are told apart":           {{at: 0, tenant: "many", outcome: Served, times: 2 * mostVoices, up: true, ready: true}, {at: 1, outcome: Failed, tenant: "a", times: 3 * mostVoices, up: true, ready: true}},
		"a probe that is given up":      {{at: 0, outcome: Failed, times: 5}, {at: 5, outcome: Abandoned, times: 1, probe: true, ready: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := setOf(1)
			m := s.Members[0]
			for i, st := range steps {
				now := t0.Add(st.at * time.Second)
				if st.probe {
					if c := s.Choose(now, s.All(), Scope{}, "", affinity.None); !c.OK || !c.Probe {
						t.Fatalf("step %d: %+v is no probe", i, c)
					}
					st.began = st.at
					if c := s.Choose(now, s.All(), Scope{}, "", affinity.None); c.OK {
						t.Fatalf("step %d: a second call goes beside the probe", i)
					}
				}
				for n := range st.times {
					tenant := strings.Replace(st.tenant, "many", fmt.Sprint(n), 1)
					m.Report(now, Result{Outcome: st.outcome, Began: t0.Add(st.began * time.Second), Probe: st.probe, Tenant: tenant})
				}
				m.mu.Lock()
				r := m.readyLocked(now, Scope{}, "")
				m.mu.Unlock()
				if got := m.State(now); got.Up != st.up || r.ok != st.ready {
					t.Fatalf("step %d: up %v and ready %v, want %v and %v", i, got.Up, r.ok, st.up, st.ready)
				}
			}
		})
	}
}

// The failure that opened it is its cause, then that of the last probe, until one works.
func TestBreaker_Cause(t *testing.T) {
	m := setOf(1).Members[0]
	for i, step := range []struct {
		Result
		want string
	}{
		{Result{Outcome: Failed, Cause: "500"}, ""},
		{Result{Outcome: Failed, Cause: "500"}, ""},
		{Result{Outcome: Failed, Cause: "500"}, ""},
		{Result{Outcome: Failed, Cause: "500"}, ""},
		{Result{Outcome: Silent, Cause: "connection refused"}, "connection refused"},
		{Result{Outcome: Failed, Cause: "late"}, "connection refused"},
		{Result{Outcome: Silent, Cause: "timeout", Probe: true}, "timeout"},
		{Result{Outcome: Served, Cause: "200 OK", Probe: true}, ""},
	} {
		step.Began = t0
		m.Report(t0, step.Result)
		if got := m.State(t0).Cause; got != step.want {
			t.Errorf("after step %d it is %q, want %q", i, got, step.want)
		}
	}
}

// One that serves every other call, and is alone, is asked all the time, and does not
// open and close with each call.
func TestBreaker_Half(t *testing.T) {
	s := setOf(1)
	opened := 0
	for i := range 6000 { // a minute
		now := t0.Add(time.Duration(i) * 10 * time.Millisecond)
		c := s.Choose(now, s.All(), Scope{}, "", affinity.None)
		if _, ok := s.Answering(now, s.All(), Scope{}, ""); !ok && !c.OK {
			t.Fatalf("call %d goes nowhere", i)
		}
		if s.Members[0].Report(now.Add(time.Millisecond), Result{Outcome: []Outcome{Served, Silent}[i/7%2], Began: now, Probe: c.Probe}).Opened {
			opened++
		}
	}
	if opened == 0 || opened > 13 {
		t.Errorf("it opened %d times in a minute", opened)
	}
}

// An upstream that has failed one tenant's calls alone may be asked by others although it is open, until theirs fail, too.
func TestAnswering_OfOthers(t *testing.T) {
	s := setOf(1)
	m := s.Members[0]
	for i, step := range []struct {
		tenant string
		fails  Outcome
		times  int
		to     map[string]bool
	}{
		{"a", Silent, 5, map[string]bool{"a": false, "a/team": false, "b": true}},
		{"a/team", Silent, 1, map[string]bool{"a": false, "b": true}},
		{"b", Silent, 1, map[string]bool{"a": false, "b": false, "c": false}},
	} {
		for range step.times {
			m.Report(t0, Result{Outcome: step.fails, Began: t0, Tenant: step.tenant})
		}
		for tenant, want := range step.to {
			if _, ok := s.Answering(t0, s.All(), Scope{}, tenant); ok != want {
				t.Errorf("after step %d: for %s %t", i, tenant, ok)
			}
		}
	}
}

// An upstream that fails one tenant's calls and serves those of others is left out of that one's choices alone, until a probe of its own works.
func TestBreaker_OfOne(t *testing.T) {
	s := setOf(1, 1)
	now := t0
	report := func(tenant string, outcome Outcome, times int, probe bool) {
		for range times {
			s.Members[0].Report(now, Result{Outcome: outcome, Began: now, Tenant: tenant, Probe: probe})
		}
	}
	goes := func(tenant string, among Mask, want bool) (probe bool) {
		t.Helper()
		c := s.Choose(now, among, Scope{}, tenant, affinity.None)
		if got := c.OK && c.Index == 0; got != want || s.Ready(now, 1, Scope{}, tenant) == 1 && !want {
			t.Errorf("after %v a call of %s goes there: %v", now.Sub(t0), tenant, got)
		}
		return c.Probe
	}
	report("b", Served, 20, false)
	report("a", Served, 2, false)
	report("a/x", Silent, 2, false)
	goes("a", 1, true)
	report("a", Silent, 1, false)
	for range 3 {
		goes("a", s.All(), false)
		goes("a/y", 1, false)
	}
	if _, ok := s.Answering(now, 1, Scope{}, "a"); !ok {
		t.Error("where there is no other it is not used")
	}
	goes("b", 1, true)
	if st := s.Members[0].State(now); !st.Up || st.Probing {
		t.Errorf("for all it is %+v", st)
	}
	for _, pause := range []time.Duration{5, 5, 10, 20, 40, 60, 60} {
		now = now.Add(pause*time.Second - 1)
		goes("a", 1, false)
		report("b", Served, 1, false)
		if now = now.Add(1); !goes("a", 1, true) {
			t.Errorf("after %v it is no probe", now.Sub(t0))
		}
		goes("a/y", 1, false)
	}
	report("a", Served, 1, true)
	goes("a/y", 1, true)

	for i := range 2 * mostVoices { // nobody else is told apart
		now = now.Add(window)
		report("b", Served, 9, false)
		report(fmt.Sprint(i), Failed, 5, false)
	}
	if n := len(s.Members[0].alone); n > 3 {
		t.Errorf("%d tenants are remembered that have not come back", n)
	}
}

// Who is busy is left alone as long as it says, or ever longer, and ten minutes at most without a second sign.
func TestCool(t *testing.T) {
	for name, c := range map[string]struct {
		told []time.Duration // each when the pause before is over
		want time.Duration
	}{
		"said":      {[]time.Duration{7 * time.Second}, 7 * time.Second},
		"not said":  {[]time.Duration{0}, time.Second},
		"again":     {[]time.Duration{0, 0, 0}, 4 * time.Second},
		"for ever":  {make([]time.Duration, 9), 30 * time.Second},
		"a day":     {[]time.Duration{24 * time.Hour}, 10 * time.Minute},
		"two signs": {[]time.Duration{time.Hour, time.Hour}, 10 * time.Minute},
		"no moment": {[]time.Duration{time.Microsecond}, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := setOf(1, 1)
			now := t0
			m := s.Members[0]
			var e Events
			paused := 0
			for _, told := range c.told {
				if at := m.State(now).Retry; at.After(now) {
					now = at
				}
				e = m.Report(now, Result{Outcome: Busy, Retry: told})
				if e.Paused {
					paused++
				}
			}
			if again := m.Report(now, Result{Outcome: Busy, Retry: time.Millisecond}); !e.Cooled || again.Cooled || paused != 1 {
				t.Errorf("it is told %+v, then %+v, and is news %d times", e, again, paused)
			}
			if got := m.State(now); !got.Busy || got.Retry.Sub(now) != c.want || !got.Up {
				t.Errorf("left alone for %v, want %v", got.Retry.Sub(now), c.want)
			}
			if ch := s.Choose(now, s.All(), Scope{}, "", affinity.None); ch.Index != 1 {
				t.Error("the busy one is chosen")
			}
			if ch := s.Choose(now, 1, Scope{}, "", affinity.None); ch.OK || !ch.Busy || !ch.At.Equal(now.Add(c.want)) {
				t.Errorf("alone it is %+v", ch)
			}
			if ch := s.Choose(now.Add(c.want), 1, Scope{}, "", affinity.None); !ch.OK {
				t.Error("it is not chosen when its pause is over")
			}
		})
	}
}

// Cuts: what is missing, by weight. If all are busy all is missing; if none works,
// nothing is held back.
func TestCuts(t *testing.T) {
	busy := func(m *Member, d time.Duration) { m.Report(t0, Result{Outcome: Busy, Retry: d}) }
	fail := func(m *Member) {
		for range 5 {
			m.Report(t0, Result{Outcome: Failed})
		}
	}
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	for name, c := range map[string]struct {
		do   func(*Set)
		want []Cut
	}{
		"all well": {func(*Set) {}, nil},
		"busy":     {func(s *Set) { busy(s.Members[1], 9*time.Second) }, []Cut{{Part: 333_333, Until: at(9 * time.Second)}}},
		"all busy": {
			func(s *Set) {
				busy(s.Members[0], time.Second)
				busy(s.Members[1], time.Minute)
				busy(s.Members[2], time.Minute)
			},
			[]Cut{{Part: 166_666, Until: at(time.Second)}, {Part: 333_333, Until: at(time.Minute)}, {Part: 500_001, Until: at(time.Minute)}},
		},
		"broken": {func(s *Set) { fail(s.Members[0]) }, []Cut{{Part: 166_666, Until: at(brokenFor)}}},
		"none works": {
			func(s *Set) { fail(s.Members[0]); fail(s.Members[1]); fail(s.Members[2]) },
			[]Cut{{Until: at(firstPause)}, {Until: at(firstPause)}, {Until: at(firstPause)}},
		},
		"who works is busy": {
			func(s *Set) { fail(s.Members[0]); busy(s.Members[1], time.Minute); fail(s.Members[2]) },
			[]Cut{{Part: 166_666, Until: at(firstPause)}, {Part: 333_333, Until: at(time.Minute)}, {Part: 500_001, Until: at(firstPause)}},
		},
		"declared": {
			func(s *Set) {
				for range agreeing {
					s.Members[2].Report(t0, Result{Told: Told{Tokens: 100_000, Requests: 5000}, Model: "m"})
					s.Members[2].Report(t0, Result{Told: Told{Tokens: 120_000, Requests: 4000}, Model: "n"})
				}
			},
			[]Cut{{Less: Told{Tokens: 180_000}, Until: at(limitsLast)}},
		},
		"declared enough": {
			func(s *Set) {
				for range agreeing {
					s.Members[2].Report(t0, Result{Told: Told{Tokens: 300_001}})
				}
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := setOf(1, 2, 3)
			c.do(s)
			testkit.Same(t, c.want, s.Cuts(t0, Told{Tokens: 600_000, Requests: 10_000}), "cuts")
		})
	}
}

// One header takes nothing from a pool; limits count once several answers in a row declare them, and
// no longer when one declares others.
func TestAudit_L3_DeclaredLimits(t *testing.T) {
	s := setOf(1)
	m := s.Members[0]
	for i, step := range []struct {
		told    int64
		lacking int64
		news    bool
	}{
		{99, 0, false},
		{99, 0, false},
		{50, 0, false},
		{99, 0, false},
		{99, 0, false},
		{99, 599_901, true},
		{99, 599_901, false},
		{0, 599_901, false}, // it says nothing
		{500_000, 0, true},
		{500_000, 0, false},
		{500_000, 100_000, true},
	} {
		news := m.Report(t0, Result{Told: Told{Tokens: step.told}}).Limits
		lacking := int64(0)
		for _, cut := range s.Cuts(t0, Told{Tokens: 600_000}) {
			lacking += cut.Less[Tokens]
		}
		if news != step.news || lacking != step.lacking {
			t.Errorf("step %d: after %d is declared, %d are lacking (news: %v), want %d (%v)", i, step.told, lacking, news, step.lacking, step.news)
		}
	}
}

// What is believed lives on in the next Set, of who is the same.
func TestNew_Remembers(t *testing.T) {
	a := New([]Spec{{Name: "a", Weight: 1, Identity: "x"}, {Name: "b", Weight: 1, Identity: "x"}}, nil)
	for _, m := range a.Members {
		m.Report(t0, Result{Outcome: Busy, Retry: time.Minute})
	}
	b := New([]Spec{{Name: "c", Weight: 1, Identity: "x"}, {Name: "b", Weight: 9, Identity: "x"}, {Name: "a", Weight: 1, Identity: "another key"}}, a)
	for i, want := range []bool{false, true, false} {
		if got := b.Members[i].State(t0).Busy; got != want {
			t.Errorf("%s is busy: %v, want %v", b.Members[i].Name, got, want)
		}
	}
}

// A try and its report allocate nothing.
func TestNoAllocations(t *testing.T) {
	s := setOf(1)
	r := Result{Told: Told{Tokens: 1000, Requests: 10}, Model: "m"}
	s.Members[0].Report(t0, r)
	if n := testkit.Allocs(t, 100, func() {
		s.Choose(t0, s.All(), Scope{}, "", affinity.None)
		s.Members[0].Report(t0, r)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Calls go by weight also if the set is made anew between them, with its members in another order: each has its turn by its name.
func TestNew_KeepsTurns(t *testing.T) {
	list := []Spec{{Name: "a", Weight: 1}, {Name: "b", Weight: 3}}
	set := New(list, nil)
	got := map[string]int{}
	for range 40 {
		got[chosen(set, t0, affinity.None).Name]++
		slices.Reverse(list)
		set = New(list, set)
	}
	if got["a"] != 10 || got["b"] != 30 {
		t.Errorf("of 40 calls, reloaded after each, they go to %v; want 10 and 30", got)
	}
}

// After a reload that makes weights smaller, no member catches up with the turns that it had by its weight before.
func TestNew_OtherWeights(t *testing.T) {
	set := New([]Spec{{Name: "a", Weight: 1}, {Name: "b", Weight: 999}}, nil)
	chosen(set, t0, affinity.None)
	set = New([]Spec{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}, set)
	got := map[string]int{}
	for range 40 {
		got[chosen(set, t0, affinity.None).Name]++
	}
	if got["a"] < 19 || got["b"] < 19 {
		t.Errorf("of 40 calls with equal weights they get %v; want 19 each at least", got)
	}
}

// A pause is of one model or class of calls, unless it is of the account. While all that is in use pauses, it is of the whole upstream.
func TestScopes(t *testing.T) {
	chat := Scope{Model: "gpt-4o"}
	vectors := Scope{Model: "emb", Class: "/embeddings"}
	for name, c := range map[string]struct {
		uses   []Scope
		paused map[Scope]time.Duration
		free   []Scope
		whole  time.Duration // 0: it is not
	}{
		"another model":        {[]Scope{chat, vectors}, map[Scope]time.Duration{vectors: time.Minute}, []Scope{chat}, 0},
		"the only one in use":  {[]Scope{chat}, map[Scope]time.Duration{chat: time.Minute}, []Scope{vectors}, time.Minute},
		"all in use":           {[]Scope{chat, vectors}, map[Scope]time.Duration{chat: time.Minute, vectors: 9 * time.Second}, nil, 9 * time.Second},
		"the account":          {[]Scope{chat, vectors}, map[Scope]time.Duration{{}: time.Minute}, nil, time.Minute},
		"one that nobody uses": {nil, map[Scope]time.Duration{chat: time.Minute}, []Scope{vectors}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := setOf(1)
			for _, of := range c.uses {
				if !s.Use(t0, of) || s.Use(t0, of) {
					t.Errorf("%v is no news, or twice", of)
				}
			}
			for of, d := range c.paused {
				s.Members[0].Report(t0, Result{Outcome: Busy, Scope: of, Retry: d})
				if of != (Scope{}) && s.Choose(t0, s.All(), of, "", affinity.None).OK {
					t.Errorf("%v is not paused", of)
				}
			}
			for _, of := range c.free {
				if !s.Choose(t0, s.All(), of, "", affinity.None).OK {
					t.Errorf("%v is paused", of)
				}
			}
			if whole := s.Members[0].State(t0).Retry; c.whole == 0 != whole.IsZero() || c.whole > 0 && !whole.Equal(t0.Add(c.whole)) || s.Held(t0, s.All()) != (c.whole > 0) {
				t.Errorf("all is paused until %v, and held: %v", whole, s.Held(t0, s.All()))
			}
			if s.Use(t0.Add(time.Second), Scope{Model: "new"}); c.paused[Scope{}] == 0 && s.Held(t0.Add(time.Second), s.All()) {
				t.Error("it is held for a model of which nothing is known")
			}
		})
	}
}

// TestScopes_Served: a call that is served ends the growth of pauses without a time, those of the account, too.
func TestScopes_Served(t *testing.T) {
	s := setOf(1)
	m := s.Members[0]
	chat := Scope{Model: "m"}
	now := t0
	for range 5 {
		m.Report(now, Result{Outcome: Busy})
		now = now.Add(time.Minute)
	}
	m.Report(now, Result{Outcome: Served, Scope: chat})
	m.Report(now, Result{Outcome: Busy})
	if at := m.State(now).Retry; !at.Equal(now.Add(firstCool)) {
		t.Errorf("it pauses for %v", at.Sub(now))
	}
}

// Whoever names ever new models has none forgotten that others use, and costs a bounded memory.
func TestScopes_Many(t *testing.T) {
	s := setOf(1)
	for i := range 3 * mostScopes {
		of := Scope{Model: string(rune(i + 1))}
		s.Use(t0.Add(time.Duration(i)), of)
		s.Members[0].Report(t0, Result{Outcome: Busy, Scope: of, Retry: time.Duration(i) * time.Second})
	}
	if len(s.uses.at) != mostScopes || len(s.Members[0].pauses) != mostScopes {
		t.Errorf("%d uses and %d pauses are kept", len(s.uses.at), len(s.Members[0].pauses))
	}
}

// What a tenant's calls were refused is left out of its own calls alone, until another tenant's were.
func TestAdditions(t *testing.T) {
	a := &Additions{}
	both := AddedUsage | AddedBound
	for i, c := range []struct {
		tenant, model string
		refused       Addition
		news          bool
		after         map[string]Addition
	}{
		{"a", "m", AddedUsage, true, map[string]Addition{"a": AddedUsage, "a/team": AddedUsage, "b": 0}},
		{"a/team", "m", AddedUsage, false, map[string]Addition{"a": AddedUsage, "b": 0}},
		{"b", "m", AddedBound, true, map[string]Addition{"a": AddedUsage, "b": AddedBound, "c": 0}},
		{"c", "m", both, true, map[string]Addition{"a": both, "b": both, "d": both}},
		{"d", "m", both, false, map[string]Addition{"d": both}},
	} {
		if news := a.Refuse(t0, c.tenant, c.model, c.refused); news != c.news {
			t.Errorf("step %d: news %t", i, news)
		}
		for tenant, want := range c.after {
			if got := a.Refused(t0.Add(refusedFor-1), tenant, c.model); got != want {
				t.Errorf("step %d: %s goes without %b, want %b", i, tenant, got, want)
			}
		}
	}
	for i := range 3 * mostRefused { // one tenant cannot keep others from being believed
		a.Refuse(t0, "a", fmt.Sprint(i), both)
	}
	if !a.Refuse(t0, "b", "new", both) || a.Refused(t0, "d", "m") != both || len(a.refused) > mostRefused {
		t.Errorf("after many models %d refusals are remembered", len(a.refused))
	}
	if got := a.Refused(t0.Add(refusedFor), "a", "m"); got != 0 {
		t.Errorf("a day later %b", got)
	}
}

// An upstream is silent if several calls wait, longer than calls do.
func TestSilent(t *testing.T) {
	type step struct {
		at, took time.Duration
		do       string // sent, answered or gone
	}
	for name, c := range map[string]struct {
		steps []step
		at    time.Duration
		since time.Duration // negative: it is not silent
	}{
		"nothing waits":          {[]step{{do: "sent"}, {at: time.Second, do: "answered", took: time.Second}}, time.Minute, -1},
		"one call takes long":    {[]step{{do: "sent"}}, time.Minute, -1},
		"two wait":               {[]step{{do: "sent"}, {at: time.Second, do: "sent"}}, 10 * time.Second, 0},
		"two wait, but not long": {[]step{{do: "sent"}, {at: time.Second, do: "sent"}}, 9 * time.Second, -1},
		"another is answered": {
			[]step{{do: "sent"}, {do: "sent"}, {do: "sent"}, {at: 5 * time.Second, do: "answered", took: 5 * time.Second}}, 14 * time.Second, -1,
		},
		"since the last answer": {
			[]step{{do: "sent"}, {do: "sent"}, {do: "sent"}, {at: 5 * time.Second, do: "answered", took: 5 * time.Second}}, 15 * time.Second, 5 * time.Second,
		},
		"callers go": {[]step{{do: "sent"}, {do: "sent"}, {do: "sent"}, {at: 9 * time.Second, do: "gone"}}, 10 * time.Second, 0},
		"answers take long here": {
			[]step{{do: "sent"}, {do: "sent"}, {do: "sent"}, {at: 30 * time.Second, do: "answered", took: 30 * time.Second}}, 89 * time.Second, -1,
		},
		"longer than they take": {
			[]step{{do: "sent"}, {do: "sent"}, {do: "sent"}, {at: 30 * time.Second, do: "answered", took: 30 * time.Second}}, 90 * time.Second, 30 * time.Second,
		},
	} {
		m := New([]Spec{{Name: "u", Weight: 1}}, nil).Members[0]
		for _, s := range c.steps {
			if now := t0.Add(s.at); s.do == "sent" {
				m.Sent(now)
			} else {
				m.AnswerEnded(now, now.Add(-s.took), s.do == "answered")
			}
		}
		since, _, silent := m.Silent(t0.Add(c.at))
		if silent != (c.since >= 0) || silent && since.Sub(t0) != c.since {
			t.Errorf("%s: silent %t since %v, want %v", name, silent, since.Sub(t0), c.since)
		}
	}
}

// conversations are many of them.
func conversations(n int) (list []affinity.Conversation) {
	for i := range n {
		list = append(list, affinity.ConversationOf("acme", uint64(i)))
	}
	return list
}

// chosen is the member chosen for a call that ends at once.
func chosen(s *Set, now time.Time, of affinity.Conversation) *Member {
	m := s.Members[s.Choose(now, s.All(), Scope{}, "", of).Index]
	m.Leave()
	return m
}

// All gateways send a conversation to the same upstream, in whatever order their configurations list them, and
// whatever ran there before.
func TestAffinity_SameAtAllGateways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []Spec
		for i, w := range rapid.SliceOfN(rapid.Int64Range(1, 1000), 1, 16).Draw(t, "weights") {
			list = append(list, Spec{Name: "up" + strconv.Itoa(i), Weight: w})
		}
		one := New(list, nil)
		other := New(rapid.Permutation(list).Draw(t, "list"), nil)
		for range rapid.IntRange(0, 5).Draw(t, "calls before") {
			chosen(other, t0, affinity.None)
		}
		for _, of := range conversations(50) {
			a := chosen(one, t0, of)
			b := chosen(other, t0, of)
			if a.Name != b.Name {
				t.Fatalf("conversation %x goes to %s at one gateway, to %s at another", of, a.Name, b.Name)
			}
		}
	})
}

// A conversation whose home is paused goes to the next in its order, and home again after. Calls that left do not count.
func TestAffinity_Failover(t *testing.T) {
	s := setOf(1, 1, 1, 1)
	of := conversations(1)[0]
	goesTo := func(at time.Duration) string {
		return chosen(s, t0.Add(at), of).Name
	}
	first := chosen(s, t0, of)
	first.Report(t0, Result{Outcome: Busy, Retry: 10 * time.Second})
	second := goesTo(time.Second)
	if second == first.Name || goesTo(9*time.Second) != second {
		t.Errorf("while %s is paused, the conversation goes to %s and %s", first.Name, second, goesTo(9*time.Second))
	}
	if got := goesTo(10 * time.Second); got != first.Name {
		t.Errorf("behind the pause it goes to %s, want its home %s", got, first.Name)
	}
	for range 4 {
		s.Choose(t0.Add(11*time.Second), Mask(0).With(slices.Index(s.Members, first)), Scope{}, "", of)
	}
	if got := goesTo(11 * time.Second); got != second {
		t.Errorf("beside four calls at %s and none elsewhere it goes to %s, want %s", first.Name, got, second)
	}
	for range 4 {
		first.Leave()
	}
	if got := goesTo(12 * time.Second); got != first.Name {
		t.Errorf("behind these calls it goes to %s, want its home %s", got, first.Name)
	}
}

// Orders come first: a conversation goes to a spare upstream only while none of a lower order is ready.
func TestAffinity_Order(t *testing.T) {
	s := New([]Spec{{Name: "a", Weight: 1}, {Name: "spare", Weight: 1, Order: 1}}, nil)
	for _, of := range conversations(100) {
		if m := chosen(s, t0, of); m.Name != "a" {
			t.Fatalf("conversation %x goes to the spare upstream", of)
		}
	}
}
