package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// asked holds 100 tokens of acme's, which counts them for a member if it has any.
var asked = client.Request{Tenant: "acme", Member: "ann", Model: "m", InputTokens: 60, MaxOutput: 40}

// reported is an end with a usage.
func reported(input, output int64) client.End {
	return client.End{Outcome: client.Failed, Usage: client.Usage{Input: input, Output: output}, Reported: true}
}

var cancelled = client.End{Outcome: client.NotSent}

// world is a book in front of a governor that counts what acme is charged.
type world struct {
	*reserve.Book
	gov *governor.Governor
}

func newWorld(t testing.TB, most int, change func(*tenants.Pool, *tenants.Tenant)) *world {
	t.Helper()
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "up", BaseURL: "https://example.com/v1"}}
	pool := tenants.DefaultPool("p")
	pool.Models = []string{"m"}
	pool.TPM = 1e12
	var list []tenants.Tenant
	for _, name := range []string{"acme", "other", "second", "third"} {
		one := tenants.Tenant{Name: name, Routes: tenants.RouteInference, Keys: []tenants.Key{{Hash: tenants.HashKey("sk-" + name)}}}
		one.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 1e12, Per: tenants.Month}}
		if change != nil {
			change(&pool, &one)
		}
		list = append(list, one)
	}
	cfg.Pools = []tenants.Pool{pool}
	ctl := admissiontest.Build(t, cfg, list...)
	return &world{
		Book: reserve.New(reserve.Options{Door: inprocess.New(ctl), Tenant: ctl.TenantOf, Most: most}),
		gov:  ctl.Governor(),
	}
}

// reserve makes a reservation of the owner "", who may name any tenant.
func (w *world) reserve(t testing.TB, id string) *reserve.Grant {
	t.Helper()
	g, err := w.Reserve(t.Context(), &reserve.Ask{ID: id, Call: asked})
	if err != nil {
		t.Fatalf("reserve %s: %v", id, err)
	}
	return g
}

// charged is what acme's budget was charged with.
func (w *world) charged() int64 {
	st, _ := w.gov.TenantState("acme")
	return st.Budgets[0].Used
}

// left fails if anything is held.
func (w *world) left(t testing.TB) {
	t.Helper()
	if running, waiting := w.gov.Leases(); running+waiting+w.Open() != 0 {
		t.Errorf("%d run, %d wait, %d are open", running, waiting, w.Open())
	}
}

// refused is the refusal in an error.
func refused(err error) *client.Refusal {
	r, ok := errors.AsType[*client.Refusal](err)
	if !ok {
		return &client.Refusal{Message: fmt.Sprint(err)}
	}
	return r
}

// Each way in which a reservation can end, with what is charged.
func TestReserve_Ends(t *testing.T) {
	for _, c := range []struct {
		name string
		live func(t *testing.T, w *world)
		want int64
	}{
		{"committed", func(t *testing.T, w *world) { commit(t, w, reported(50, 5), true) }, 55},
		{"committed as complete", func(t *testing.T, w *world) {
			commit(t, w, client.End{Usage: client.Usage{Input: 50, Output: 5}, Reported: true}, true)
		}, 55},
		{"committed twice", func(t *testing.T, w *world) {
			commit(t, w, reported(50, 5), true)
			commit(t, w, reported(70, 7), false)
		}, 55},
		{"committed without a report", func(t *testing.T, w *world) { commit(t, w, client.End{Outcome: client.Failed}, true) }, 100},
		{"committed without a report, after progress", func(t *testing.T, w *world) {
			progress(t, w, 7)
			progress(t, w, 3) // late
			commit(t, w, client.End{Outcome: client.Failed}, true)
		}, 67},
		{"answered with an error", func(t *testing.T, w *world) { commit(t, w, client.End{Outcome: client.AnsweredError}, true) }, 0},
		{"cancelled", func(t *testing.T, w *world) {
			commit(t, w, cancelled, true)
			commit(t, w, cancelled, false)
		}, 0},
		{"cancelled, but made after all", func(t *testing.T, w *world) {
			commit(t, w, cancelled, true)
			commit(t, w, reported(50, 5), false)
			commit(t, w, reported(50, 5), false)
		}, 55},
		{"expired", func(_ *testing.T, _ *world) { time.Sleep(61 * time.Second) }, 100},
		{"expired after progress", func(t *testing.T, w *world) {
			progress(t, w, 7)
			time.Sleep(61 * time.Second)
		}, 67},
		{"kept alive", func(t *testing.T, w *world) {
			for range 10 {
				time.Sleep(59 * time.Second)
				progress(t, w, 0)
			}
			commit(t, w, reported(50, 5), true)
		}, 55},
		{"committed too late, more than estimated", func(t *testing.T, w *world) {
			time.Sleep(61 * time.Second)
			commit(t, w, reported(70, 90), false)
			commit(t, w, reported(70, 90), false)
		}, 160},
		{"committed too late, less than estimated", func(t *testing.T, w *world) {
			time.Sleep(61 * time.Second)
			commit(t, w, reported(50, 5), false)
		}, 100},
		{"shut down", func(_ *testing.T, w *world) { w.Close() }, 100},
	} {
		testkit.Virtual(t, c.name, func(t *testing.T) {
			for _, who := range []string{"acme", "acme/~ann"} {
				w := newWorld(t, 10, func(p *tenants.Pool, one *tenants.Tenant) { // a token costs a millionth of a dollar, and a call a thousand
					p.Upstreams = []tenants.PoolUpstream{{Name: "up", Price: &tenants.Price{Input: 1e6, Output: 1e6, Call: 1000}}}
					one.Budgets = append(one.Budgets, tenants.Budget{Unit: tenants.MicroUSD, Limit: 1e12, Per: tenants.Month})
					if who != "acme" {
						one.Members = &tenants.Members{By: tenants.MemberBy{Source: tenants.ByUser}, Each: tenants.MemberLimits{Weight: 1, Budgets: one.Budgets}}
					}
				})
				w.reserve(t, "r")
				c.live(t, w)
				w.left(t)
				if got := w.charged(); got != c.want {
					t.Errorf("%s: charged %d, %d is right", who, got, c.want)
				}
				cost := c.want
				if cost > 0 {
					cost += 1000
				}
				if st, _ := w.gov.TenantState(who); st.Budgets[0].Used != c.want || st.Budgets[1].Used != cost {
					t.Errorf("%s: it took %d tokens and cost %d, %d and %d are right", who, st.Budgets[0].Used, st.Budgets[1].Used, c.want, cost)
				}
			}
		})
	}
}

func commit(t *testing.T, w *world, e client.End, released bool) {
	t.Helper()
	got, err := w.Commit("", "r", e)
	if err != nil || got != released {
		t.Errorf("commit: %t, %v", got, err)
	}
}

func progress(t *testing.T, w *world, tokens int64) {
	t.Helper()
	if _, _, err := w.Progress("", "r", client.Produced{Tokens: tokens}); err != nil {
		t.Errorf("progress: %v", err)
	}
}

// A Reserve whose answer was lost is repeated, and holds nothing twice. Another call needs another id.
func TestReserve_Repeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10, nil)
		w.reserve(t, "r")
		time.Sleep(50 * time.Second)
		w.reserve(t, "r")
		if n, _ := w.gov.Leases(); n != 1 {
			t.Errorf("%d leases", n)
		}
		other := asked
		other.MaxOutput = 41
		if _, err := w.Reserve(t.Context(), &reserve.Ask{ID: "r", Call: other}); refused(err).Status != http.StatusBadRequest {
			t.Errorf("another call by the same id: %v", err)
		}
		time.Sleep(50 * time.Second) // the second one has renewed it
		commit(t, w, reported(50, 5), true)
		if _, err := w.Reserve(t.Context(), &reserve.Ask{ID: "r", Call: asked}); refused(err).Status != http.StatusBadRequest {
			t.Errorf("the id of an ended one: %v", err)
		}
		time.Sleep(11 * time.Minute)
		if _, err := w.Commit("", "r", reported(1, 1)); refused(err).Status != http.StatusNotFound {
			t.Errorf("after it was forgotten: %v", err)
		}
		w.reserve(t, "r")
		commit(t, w, cancelled, true)
	})
}

// A stream that its caller broke off before its first piece may have thought all the time, as over HTTP.
func TestReserve_StreamCancelled(t *testing.T) {
	w := newWorld(t, 10, nil)
	stream := asked
	stream.Stream = true
	testkit.Must(w.Reserve(t.Context(), &reserve.Ask{ID: "r", Call: stream}))(t)
	commit(t, w, client.End{Outcome: client.Cancelled}, true)
	if got := w.charged(); got != 100 {
		t.Errorf("charged %d, 100 is right", got)
	}
}

func second[A, B any](_ A, b B) B        { return b }
func third[A, B, C any](_ A, _ B, c C) C { return c }

// Whoever asks and goes away holds nothing, whether it waits or was just admitted.
func TestReserve_AskerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10, func(p *tenants.Pool, tn *tenants.Tenant) {
			p.Concurrency = 1
			tn.MaxWait = time.Minute
		})
		w.reserve(t, "r")
		ctx, leave := context.WithCancel(t.Context())
		answer := make(chan error)
		go func() {
			_, err := w.Reserve(ctx, &reserve.Ask{ID: "s", Call: asked})
			answer <- err
		}()
		synctest.Wait()
		if _, err := w.Reserve(t.Context(), &reserve.Ask{ID: "s", Call: asked}); refused(err).Status != http.StatusConflict {
			t.Errorf("a repetition while the first waits: %v", err)
		}
		if _, err := w.Commit("", "s", reported(1, 1)); refused(err).Status != http.StatusNotFound {
			t.Errorf("committed while it waits: %v", err)
		}
		leave()
		if err := <-answer; !errors.Is(err, context.Canceled) {
			t.Errorf("the asker that left: %v", err)
		}
		go func() {
			_, err := w.Reserve(context.WithoutCancel(ctx), &reserve.Ask{ID: "u", Call: asked})
			answer <- err
		}()
		synctest.Wait()
		if released, err := w.Commit("", "u", cancelled); err != nil || !released {
			t.Errorf("cancelled while it waits: %t, %v", released, err)
		}
		if err := <-answer; !errors.Is(err, context.Canceled) {
			t.Errorf("the asker that was cancelled: %v", err)
		}
		commit(t, w, cancelled, true)
		w.left(t)
		if _, err := w.Reserve(ctx, &reserve.Ask{ID: "t", Call: asked}); !errors.Is(err, context.Canceled) {
			t.Errorf("the asker that had left before: %v", err)
		}
		w.left(t)
	})
}

// A cancel that is faster than what it cancels leaves nothing held: nobody would end it.
func TestReserve_CancelledBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10, nil)
		if _, err := w.Commit("", "fast", cancelled); refused(err).Status != http.StatusNotFound {
			t.Errorf("a cancel of nothing: %v", err)
		}
		if _, err := w.Reserve(t.Context(), &reserve.Ask{ID: "fast", Call: asked}); refused(err).Status != http.StatusBadRequest {
			t.Errorf("it is reserved after its cancel: %v", err)
		}
		w.left(t)
		huge := strings.Repeat("x", 1<<20) // which is not remembered
		if _, err := w.Commit("", huge, cancelled); refused(err).Status != http.StatusNotFound || len(refused(err).Message) > 1000 {
			t.Errorf("a cancel by a long id: %d bytes, %v", len(refused(err).Message), refused(err).Status)
		}
		w.reserve(t, "other")
		for i := range 5000 {
			_, _ = w.Commit("", fmt.Sprint("never-", i), cancelled)
		}
		if released, err := w.Commit("", "other", cancelled); !released || err != nil {
			t.Errorf("after many cancels of nothing, one of something: %v %v", released, err)
		}
		w.left(t)
	})
}

// A tenant that reserves and never commits has half of the places; others still find theirs.
func TestReserve_Flood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 100, nil)
		flood := func(call client.Request) (n int, err error) {
			for err == nil {
				_, err = w.Reserve(t.Context(), &reserve.Ask{Call: call})
				n++
			}
			return n - 1, err
		}
		n, err := flood(asked)
		if r := refused(err); n != 50 || r.Status != http.StatusTooManyRequests || r.Kind != "concurrency" || r.Header.Get("Retry-After") == "" {
			t.Errorf("the first had %d: %+v", n, r)
		}
		// By its key, a tenant is the same as by its name.
		if _, err := w.Reserve(t.Context(), &reserve.Ask{Call: client.Request{Key: "sk-acme", Model: "m"}}); refused(err).Status != http.StatusTooManyRequests {
			t.Errorf("by its key: %v", err)
		}
		n, err = flood(client.Request{Tenant: "other", Model: "m"})
		if r := refused(err); n != 25 || r.Status != http.StatusTooManyRequests {
			t.Errorf("the second had %d: %+v", n, r)
		}
		time.Sleep(61 * time.Second)
		w.left(t)
	})
}

// A shutdown waits for calls that are under way, and learns how they end.
func TestReserve_Drain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10, nil)
		w.reserve(t, "r")
		w.gov.Drain()
		if _, err := w.Reserve(t.Context(), &reserve.Ask{Call: asked}); refused(err).Code != "draining" {
			t.Errorf("while draining: %v", err)
		}
		time.AfterFunc(time.Second, func() { commit(t, w, reported(50, 5), true) })
		began := time.Now()
		if err := w.Book.Drain(t.Context()); err != nil || time.Since(began) != time.Second {
			t.Errorf("drained after %s: %v", time.Since(began), err)
		}
		if err := w.Book.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		w.left(t)
	})
}

// slowDoor takes a second to book the end of a call.
type slowDoor struct{ reserve.Door }

func (d slowDoor) Later(h doors.Held) func(client.Usage) {
	time.Sleep(time.Second)
	return d.Door.Later(h)
}

// A shutdown waits for a reservation that is out of the book until its end is booked.
func TestReserve_DrainWaitsForEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 10, nil)
		w.Door = slowDoor{w.Door}
		w.reserve(t, "r")
		go commit(t, w, cancelled, true)
		synctest.Wait()
		if open := w.Open(); open != 0 {
			t.Fatalf("%d are open", open)
		}
		began := time.Now()
		err := w.Book.Drain(t.Context())
		if took := time.Since(began); err != nil || took != time.Second {
			t.Errorf("drained after %s: %v", took, err)
		}
		w.left(t)
	})
}

// The governor can end a call early: its next progress hears of it.
func TestReserve_Interrupted(t *testing.T) {
	w := newWorld(t, 10, nil)
	w.reserve(t, "r")
	w.gov.Interrupt("p", errors.New("a slot was lost"))
	_, interrupted, err := w.Progress("", "r", client.Produced{Tokens: 3})
	if err != nil || interrupted == nil || interrupted.Status != http.StatusServiceUnavailable {
		t.Errorf("%+v, %v", interrupted, err)
	}
	commit(t, w, reported(50, 3), true)
	w.left(t)
}

// step is one thing that happens to reservations, for the property below.
type step struct {
	what          string
	owner, id     string
	input, output int64
	sleep         time.Duration
}

var drawStep = rapid.Custom(func(t *rapid.T) step {
	return step{
		what:   rapid.SampledFrom([]string{"reserve", "reserve", "commit", "cancel", "progress", "sleep"}).Draw(t, "what"),
		owner:  rapid.SampledFrom([]string{"", "other"}).Draw(t, "owner"),
		id:     rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id"),
		input:  rapid.Int64Range(0, 200).Draw(t, "input"),
		output: rapid.Int64Range(0, 200).Draw(t, "output"),
		sleep:  time.Duration(rapid.IntRange(1, 400).Draw(t, "sleep")) * time.Second,
	}
})

// oracle is what a book should do, told simply: it looks at every reservation at every step.
type oracle struct {
	most    int
	now     time.Duration
	all     map[[2]string]*fate
	early   map[[2]string]time.Duration // cancelled before it was reserved: when it is forgotten
	charged int64
}

type fate struct {
	open          bool
	until         time.Duration // open: when it expires; else: when it is forgotten
	produced      int64
	lacks         bool  // a late commit is charged
	input, output int64 // what was charged
}

func (o *oracle) pass(d time.Duration) {
	o.now += d
	for n, f := range o.all {
		if f.open && f.until <= o.now {
			f.output = 40
			if f.produced > 0 {
				f.output = f.produced
			}
			f.input = 60
			o.charged += f.input + f.output
			f.lacks = true
			f.open = false
			f.until += 10 * time.Minute
		}
		if !f.open && f.until <= o.now {
			delete(o.all, n)
		}
	}
	maps.DeleteFunc(o.early, func(_ [2]string, until time.Duration) bool { return until <= o.now })
}

func (o *oracle) open() (n int) {
	for _, f := range o.all {
		if f.open {
			n++
		}
	}
	return n
}

// do does a step, and returns the status that it should have: 200, or that of a refusal.
func (o *oracle) do(s step) int {
	f := o.all[[2]string{s.owner, s.id}]
	_, early := o.early[[2]string{s.owner, s.id}]
	switch {
	case s.what == "sleep":
		o.pass(s.sleep)
	case s.what == "reserve" && f != nil && f.open:
		f.until = o.now + time.Minute
	case s.what == "reserve" && (f != nil || early):
		return 400
	case s.what == "reserve" && o.most-o.open() <= o.open(): // all are acme's
		if o.most == o.open() {
			return 503
		}
		return 429
	case s.what == "reserve":
		o.all[[2]string{s.owner, s.id}] = &fate{open: true, until: o.now + time.Minute}
	case f == nil:
		if s.what == "cancel" && !early {
			o.early[[2]string{s.owner, s.id}] = o.now + 10*time.Minute
		}
		return 404
	case s.what == "progress" && f.open:
		f.until = o.now + time.Minute
		f.produced = max(f.produced, s.output)
	case s.what == "progress":
		return 409
	case f.open:
		f.open = false
		f.until = o.now + 10*time.Minute
		f.lacks = s.what == "cancel"
		if s.what == "commit" {
			o.charged += s.input + s.output
		}
	case s.what == "commit" && f.lacks:
		o.charged += max(0, s.input-f.input) + max(0, s.output-f.output)
		f.lacks = false
	}
	return 200
}

// Whatever happens to reservations in whatever order, they hold and charge what the oracle says.
func TestReserve_AgainstOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(drawStep, 1, 60).Draw(rt, "steps")
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = follow(t, steps) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// follow does all steps in a world and in the oracle, and says where they differ.
func follow(t *testing.T, steps []step) string {
	w := newWorld(t, 9, nil)
	defer w.Close()
	o := &oracle{most: 9, all: map[[2]string]*fate{}, early: map[[2]string]time.Duration{}}
	for i, s := range append(steps, step{what: "sleep", sleep: time.Hour}) {
		want := o.do(s)
		var err error
		switch s.what {
		case "reserve":
			_, err = w.Reserve(t.Context(), &reserve.Ask{Owner: s.owner, ID: s.id, Call: asked})
		case "commit":
			_, err = w.Commit(s.owner, s.id, reported(s.input, s.output))
		case "cancel":
			_, err = w.Commit(s.owner, s.id, cancelled)
		case "progress":
			_, _, err = w.Progress(s.owner, s.id, client.Produced{Tokens: s.output})
		default:
			time.Sleep(s.sleep)
			synctest.Wait()
		}
		got := http.StatusOK
		if err != nil {
			got = refused(err).Status
		}
		running, _ := w.gov.Leases()
		charged := w.charged()
		if o.open() > 0 {
			charged = o.charged // budgets count what is held, too
		}
		if got != want || charged != o.charged || w.Open() != o.open() || running != o.open() {
			return fmt.Sprintf("step %d %+v: %d, want %d (%v); charged %d, want %d; %d open and %d leases, want %d",
				i, s, got, want, err, charged, o.charged, w.Open(), running, o.open())
		}
	}
	return ""
}
