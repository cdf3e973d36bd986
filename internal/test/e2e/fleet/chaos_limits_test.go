package fleet

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// TestChaosLimits: whatever happens to three gateways and to the store that they share, the provider counts no
// more than docs/federation.md promises: of a pool's calls at once and budget, and of tenants' own limits under each of
// tenant_limits. Seconds after it all slots are in use again, and in the end nothing is left behind.
func TestChaosLimits(t *testing.T) {
	testkit.Long(t, "compares gateways in real time")
	t.Parallel()
	want := newWant(t, newRedisDisaster(t))
	want.endure()
}

// TestChaosLimitsPostgres is the same with PostgreSQL.
func TestChaosLimitsPostgres(t *testing.T) {
	if !*chaosAll {
		t.Skip("takes minutes; make chaos")
	}
	newWant(t, &pgDisaster{pgtest.New(t), t}).endure()
}

// ordeal is something that goes wrong for a while.
type ordeal struct {
	name     string
	lasts    time.Duration
	do, undo func()
	// leased is how many times their limits tenants may have in pools that are leased, for some gateways count
	// alone; all how many times in all pools, for the store has forgotten. 0 is once.
	leased, all int64
	// late says that calls which were let go before may reach the provider after it.
	late bool
}

// ordeals are what happens, one after the other: last what makes more than a limit possible, for that counts for a minute.
func (w *want) ordeals(all bool) []ordeal {
	signal := func(s syscall.Signal, to int) func() { return func() { _ = syscall.Kill(to, s) } }
	list := []ordeal{
		{name: "one of three killed", lasts: 4 * time.Second, do: w.gateways[2].kill, undo: w.gateways[2].restart},
		{name: "cut off from the store for 1 s", lasts: time.Second, do: w.ways[0].cut, undo: w.ways[0].heal},
	}
	if all {
		frozen := w.gateways[1]
		list = append(list,
			ordeal{name: "50 ms on the way to the store", lasts: 6 * time.Second, do: func() { w.delay(50 * time.Millisecond) }, undo: func() { w.delay(0) }},
			ordeal{name: "the store stopped (SIGSTOP) for 1 s", lasts: time.Second, do: signal(syscall.SIGSTOP, w.store.Pid()), undo: signal(syscall.SIGCONT, w.store.Pid())},
			ordeal{
				name: "one of three stopped (SIGSTOP) for 10 s", lasts: 10 * time.Second, late: true,
				do: func() { frozen.signal(syscall.SIGSTOP) }, undo: func() { frozen.signal(syscall.SIGCONT) },
			},
			ordeal{name: "one of three cut off for 15 s", lasts: 15 * time.Second, leased: 2, do: w.ways[0].cut, undo: w.ways[0].heal},
			ordeal{name: "the store stopped (SIGSTOP) for 10 s", lasts: 10 * time.Second, leased: 3, do: signal(syscall.SIGSTOP, w.store.Pid()), undo: signal(syscall.SIGCONT, w.store.Pid())},
		)
	}
	// A gateway that has little of the processor hears of its next grant after the last one has expired, and counts alone until
	// then.
	list = append(list, ordeal{name: "all data of the store lost", lasts: time.Second, leased: 3, all: 2, do: w.store.Flush, undo: func() {}})
	if all {
		list = append(list, ordeal{name: "the store ended for 5 s", lasts: 5 * time.Second, leased: 3, all: 2, do: w.store.Stop, undo: w.store.Start})
	}
	return list
}

// endure lets all happen.
func (w *want) endure() {
	idle := w.goroutines()
	w.flood()
	defer w.rest()
	w.full("the start")
	settled := time.Now() // since when nothing is wrong in the last minute
	times := ordeal{}
	for _, o := range w.ordeals(*chaosAll) {
		if time.Since(settled) > time.Minute {
			times = ordeal{}
		}
		times.leased = max(times.leased, o.leased)
		times.all = max(times.all, o.all)
		times.late = times.late || o.late
		w.known(w.list[0])
		w.suffer(&o, &times)
		settled = time.Now()
	}
	w.rest()
	w.spend()
	w.empty(idle)
}

// suffer lets one thing happen, and waits until all slots are in use again. In the minute before, such things
// happened as times says.
func (w *want) suffer(o, times *ordeal) {
	began := time.Now()
	for _, r := range w.list {
		r.provider.mock.ResetStats()
	}
	o.do()
	time.Sleep(o.lasts) // of real processes
	o.undo()
	took := w.full(o.name)
	text := fmt.Sprintf("%-42s all slots in use after %4.1f s; at most", o.name, took.Seconds())
	for _, r := range w.list {
		most := int64(0)
		of := o
		switch {
		case strings.HasSuffix(r.name, "slots"):
			most = r.provider.mock.Stats().PeakRunning
		case strings.HasSuffix(r.name, "minute"):
			most = r.provider.most(59*time.Second, began)
			of = times
		default:
			continue
		}
		text += fmt.Sprintf(" %s %d", r.name, most)
		if may := of.allows(r); most > may {
			w.t.Errorf("%s: the provider of %s counted %d, and %d is the most that there may be", o.name, r.name, most, may)
		}
	}
	w.t.Log(text)
}

// allows is how much of a ration there may be.
func (o *ordeal) allows(r *ration) int64 {
	may := r.limit
	switch {
	case r.mode == "leased":
		may *= max(1, o.leased, o.all)
	case r.mode != "":
		may *= max(1, o.all)
	}
	if o.late {
		may += int64(r.callers)
	}
	return may
}

// full waits until as many calls run at once as may, of each pool and tenant that has slots, and tells how long that took.
func (w *want) full(after string) time.Duration {
	began := time.Now()
	for _, r := range w.list {
		if !strings.HasSuffix(r.name, "slots") {
			continue
		}
		for r.provider.mock.Stats().Running < r.limit {
			if time.Sleep(time.Millisecond); time.Since(began) > processtest.Patience {
				w.t.Errorf("%s: %v after it %s does not have %d calls at once", after, time.Since(began), r.name, r.limit)
				break
			}
		}
	}
	return time.Since(began)
}

// spend uses up what is left of budgets: all of them but what was in the hands of who was killed, and no more.
func (w *want) spend() {
	var spending sync.WaitGroup
	for _, r := range w.list {
		if strings.HasSuffix(r.name, "budget") {
			spending.Go(func() { w.spendOne(r) })
		}
	}
	spending.Wait()
}

// spendOne calls until nobody has been served for five seconds: unused parts move between gateways within two.
func (w *want) spendOne(r *ration) {
	before := r.provider.count()
	used := before
	var callers sync.WaitGroup
	for served := time.Now(); time.Since(served) < 5*time.Second; {
		for _, g := range w.gateways {
			for range 10 {
				callers.Go(func() { w.call(w.t.Context(), g, r, 0) })
			}
		}
		callers.Wait()
		if now := r.provider.count(); now > used {
			used = now
			served = time.Now()
		}
	}
	forgotten := w.forgotten(r)
	w.t.Logf("of %d of %s %d were used, %d of them in the end", r.limit, r.name, used, used-before)
	if used > r.limit+forgotten || used < r.limit*9/10 {
		w.t.Errorf("of %d of %s %d were used; gateways that are no more had at most %d", r.limit, r.name, used, forgotten)
	}
}

// empty looks whether anything is left of all that.
func (w *want) empty(idle []int) {
	processtest.CloseIdleConnections()
	w.front.CloseClientConnections()
	for i, g := range w.gateways {
		// Gateways heard of one another at different moments before the loss. What they told of the lost account
		// can therefore count a slot twice, and the account shows it until its tail, a minute, is over.
		redistest.Within(w.t, 75*time.Second, "nothing runs, waits or is held any more", func() bool {
			return !busySeries.MatchString(w.metrics(g))
		})
		redistest.Eventually(w.t, fmt.Sprintf("there are about %d goroutines again", idle[i]), func() bool { return w.goroutines()[i] <= idle[i]+8 })
	}
	for _, r := range w.list {
		if !strings.HasSuffix(r.name, "slots") {
			continue
		}
		r.provider.mock.ResetStats()
		var callers sync.WaitGroup
		end := time.Now().Add(processtest.Patience)
		for range slotsRation {
			callers.Go(func() {
				for r.provider.mock.Stats().PeakRunning < r.limit && time.Now().Before(end) {
					w.call(w.t.Context(), w.gateways[0], r, 10)
				}
			})
		}
		if callers.Wait(); r.provider.mock.Stats().PeakRunning != r.limit {
			w.t.Errorf("in the end %s has %d calls at once", r.name, r.provider.mock.Stats().PeakRunning)
		}
	}
}

// busySeries are those that are not 0 where calls run, wait or are held.
var busySeries = regexp.MustCompile(`(?m)^llmgov_(leases|inflight_requests|queue_depth|used{axis="concurrency")[^ ]* [1-9]`)

func (w *want) metrics(g *gateway) string { return g.proc.Load().Scrape(w.t) }

// goroutines is how many each gateway has.
func (w *want) goroutines() (list []int) {
	for _, g := range w.gateways {
		n := int(g.sum("go_goroutines"))
		list = append(list, n)
	}
	return list
}
