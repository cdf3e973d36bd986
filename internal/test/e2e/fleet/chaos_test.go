package fleet

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/test/testkit/wallclock"
)

var chaosAll = flag.Bool("chaos", false, "let all happen to gateways that can, for minutes, and not only what fits into one")

// mishap is something that goes wrong for a while.
type mishap struct {
	name  string
	lasts time.Duration
	do    func()
	undo  func()
	// late says that calls which were let go before may reach the provider after it: as
	// many as were in flight.
	late bool
	// within is how soon after it nine tenths of the limit have to be served again; 0 is as soon as after any other.
	within time.Duration
	// nothing says that nothing is wrong meanwhile, nor after it.
	nothing bool
}

// chaosTPM is the provider's limit, and chaosCall what a call takes of it.
const chaosTPM, chaosCall = 3_000_000, 490

// TestChaos: whatever happens to four gateways and to the store that they share, the
// provider, which counts strictly, refuses nothing; and who is entitled to most gets it all
// the time that nothing is wrong.
func TestChaos(t *testing.T) {
	testkit.Long(t, "compares gateways in real time")
	t.Parallel()
	suffer(t, newRedisDisaster(t))
}

// TestChaosPostgres is the same with PostgreSQL, which remembers over restarts.
func TestChaosPostgres(t *testing.T) {
	if !*chaosAll {
		t.Skip("takes minutes; make chaos")
	}
	suffer(t, &pgDisaster{pgtest.New(t), t})
}

func suffer(t *testing.T, store disaster) {
	c := newTumult(t, store, 4)
	c.flood()
	defer c.rest()
	time.Sleep(10 * time.Second)
	if *chaosAll {
		c.pause = 15 * time.Second
		c.off = 0.03
		c.within = 5 * time.Second
	}
	for _, m := range c.mishaps(*chaosAll) {
		c.suffer(m)
	}
	time.Sleep(5 * time.Second)
	c.rest()
	c.report()
}

// mishaps are what happens, one after the other.
func (c *tumult) mishaps(all bool) []mishap {
	list := []mishap{
		{name: "one of four killed", lasts: 4 * time.Second, do: c.gateways[3].kill, undo: func() { c.gateways[3].restart() }},
		{name: "cut off from the store for 3 s", lasts: 3 * time.Second, do: func() { c.ways[0].cut() }, undo: func() { c.ways[0].heal() }},
		{name: "1000 ms on the way to the store", lasts: 6 * time.Second, do: func() { c.delay(time.Second) }, undo: func() { c.delay(0) }},
	}
	list = append(list, c.clocks(all)...)
	list = append(list, c.losses(all)...)
	if !all {
		return list
	}
	frozen := c.gateways[1]
	list = append(list,
		mishap{name: "cut off from the store for 30 s", lasts: 30 * time.Second, do: func() { c.ways[0].cut() }, undo: func() { c.ways[0].heal() }},
		mishap{name: "two of four cut off for 30 s", lasts: 30 * time.Second, do: func() { c.ways[0].cut(); c.ways[1].cut() }, undo: func() { c.ways[0].heal(); c.ways[1].heal() }},
		mishap{name: "the store stopped for 10 s", lasts: 10 * time.Second, do: c.store.Stop, undo: c.store.Start},
		mishap{
			name: "one of four stopped (SIGSTOP) for 10 s", lasts: 10 * time.Second, late: true,
			do: func() { frozen.signal(syscall.SIGSTOP) }, undo: func() { frozen.signal(syscall.SIGCONT) },
		},
	)
	if store, ok := c.store.(successor); ok {
		list = append(list, mishap{name: "a failover by Sentinel", lasts: 10 * time.Second, do: func() { c.lead(store.Failover()) }, undo: func() {}})
	}
	return list
}

// losses are of all data of the store, of which those who are left have to tell.
func (c *tumult) losses(all bool) []mishap {
	lost := mishap{name: "all data of the store lost", lasts: time.Second, do: c.store.Flush, undo: func() {}, within: 30 * time.Second} // else it is a minute
	list := []mishap{lost}
	if !all {
		return list
	}
	lost.within = 0
	young := lost
	young.name = "one of four restarted, then all data lost"
	young.do = func() {
		c.restart(c.gateways[3])
		time.Sleep(5 * time.Second) // until it has grants
		c.store.Flush()
	}
	old := lost
	old.name = "all but one restarted, then all data lost"
	old.do = func() {
		c.restart(c.gateways[1:]...)
		time.Sleep(5 * time.Second)
		c.store.Flush()
	}
	only := lost
	only.name = "all data lost as all but one restart"
	only.do = func() {
		c.store.Flush()
		c.restart(c.gateways[1:]...)
	}
	frozen := lost
	frozen.name = "all data lost as one of four is stopped (SIGSTOP)"
	frozen.late = true
	frozen.do = func() {
		c.gateways[1].signal(syscall.SIGSTOP)
		time.Sleep(3 * time.Second)
		c.store.Flush()
		time.Sleep(7 * time.Second)
	}
	frozen.undo = func() { c.gateways[1].signal(syscall.SIGCONT) }
	apart := lost
	apart.name = "all data lost as one of four is cut off"
	apart.do = func() {
		c.ways[0].cut()
		time.Sleep(3 * time.Second)
		c.store.Flush()
		time.Sleep(7 * time.Second)
	}
	apart.undo = func() { c.ways[0].heal() }
	list = append(list, young, old, only, frozen, apart)
	if c.store.Remembers() {
		list = append(list, mishap{name: "everything restarted", lasts: time.Second, do: c.restartAll, undo: func() {}})
	}
	return list
}

// restart ends gateways, and starts them again.
func (c *scene) restart(those ...*gateway) {
	for _, g := range those {
		g.kill()
	}
	c.start(those...)
}

// restartAll restarts the store and all gateways, of which none knows then what was used.
func (c *scene) restartAll() {
	for _, g := range c.gateways {
		g.kill()
	}
	c.store.Stop()
	c.store.Start()
	c.start(c.gateways...)
}

// clocks are wall clocks that jump: those of two gateways, to which that is nothing, and the
// store's.
func (c *tumult) clocks(all bool) []mishap {
	switch {
	case !wallclock.Possible && os.Getenv("CI") == "true":
		c.t.Error("clocks can be stepped on Linux on amd64 alone")
		return nil
	case !wallclock.Possible:
		c.note("no clock was stepped: that needs Linux on amd64")
		return nil
	}
	jump := func(by time.Duration) {
		wallclock.Step(c.t, c.gateways[0].proc.Load().Pid(), by)
		wallclock.Step(c.t, c.gateways[1].proc.Load().Pid(), -by)
	}
	list := []mishap{{
		name: "gateways' clocks an hour ahead and back", lasts: 3 * time.Second, nothing: true,
		do: func() { jump(time.Hour) }, undo: func() { jump(-time.Hour) },
	}}
	if !all {
		return list
	}
	for _, s := range []struct {
		what string
		by   time.Duration
	}{{"1 s ahead", time.Second}, {"1 s back", -time.Second}, {"an hour ahead", time.Hour}, {"an hour back", -time.Hour}} {
		list = append(list, mishap{
			name: "the store's clock put " + s.what, lasts: 3 * time.Second,
			do: func() { wallclock.Step(c.t, c.store.Pid(), s.by) }, undo: func() {},
		})
	}
	return list
}

// suffer lets a mishap happen while calls go on, and then waits until calls are served as
// before.
func (c *tumult) suffer(m mishap) {
	c.t.Helper()
	c.settle()
	before := c.model.Stats()
	began := time.Now()
	m.do()
	time.Sleep(m.lasts) // of real processes
	m.undo()
	over := time.Now()
	switch {
	case m.nothing:
		c.note("%-42s at least %3.0f %% of the limit served in each second", m.name, 100*c.least(began, over))
	default:
		back := c.recovered(over)
		if within := cmp.Or(m.within, c.within); within > 0 && back > within {
			c.t.Errorf("%s: calls are served as before after %v, and not after %v", m.name, back, within)
		}
		c.troubled(began, over.Add(back+3*time.Second))
		c.note("%-42s at least %3.0f %% of the limit served in each second, and all as before %4.1f s after it", m.name, 100*c.least(began, over), back.Seconds())
		time.Sleep(c.pause)
	}
	refused := c.model.Stats().Refused - before.Refused
	switch {
	case m.late:
		c.note("%-42s the provider refused %d, of at most %d in flight", "", refused, c.inFlight)
		if refused > c.inFlight {
			c.t.Errorf("%s: the provider refused %d, and only %d were in flight", m.name, refused, c.inFlight)
		}
	case refused > 0:
		c.t.Errorf("%s: the provider refused %d", m.name, refused)
	}
}

// settle waits until the next mishap can be judged. If nothing was served for a while, the minute has room for that afterwards, and it is
// served at once. Until that has left the minute, less than nine tenths of the limit are left for each second, whatever happens.
func (c *tumult) settle() {
	for c.within > 0 && c.madeUp() {
		time.Sleep(bucket)
	}
}

// report compares what tenants were served, while nothing was wrong, with their weights.
func (c *tumult) report() {
	c.t.Helper()
	served := map[string]int64{}
	all := int64(0)
	weights := int64(0)
	seconds := 0.0
	for i := range c.buckets {
		at := c.began.Add(time.Duration(i) * bucket)
		if i == 0 || c.inTrouble(at) || at.After(c.ended.Add(-bucket)) {
			continue
		}
		seconds += bucket.Seconds()
		for tenant, n := range c.buckets[i] {
			served[tenant] += n
			all += n
		}
	}
	for _, t := range crowd {
		weights += t.weight
	}
	c.note("in the %.0f s in which nothing was wrong %.1f %% of the limit were used", seconds, 100*float64(all)*chaosCall*60/seconds/chaosTPM)
	for _, t := range crowd {
		got := float64(served[t.name]) / float64(all)
		want := float64(t.weight) / float64(weights)
		c.note("  %-4s weight %d: %5.2f %% of them, its share is %5.2f %%", t.name, t.weight, 100*got, 100*want)
		if t.weight >= 4 && (got < want*(1-c.off) || got > want*(1+c.off)) {
			c.t.Errorf("%s was served %.2f %%, and its share is %.2f %%", t.name, 100*got, 100*want)
		}
	}
	st := c.model.Stats()
	c.note("the provider served %d calls and refused %d, and had %.4f of the limit in its fullest minute; gateways refused %d",
		st.Admitted, st.Refused, float64(st.WindowTokensPeak)/chaosTPM, c.refused.Load())
	c.log()
}

// log prints the notes.
func (c *tumult) log() { c.t.Log("\n" + strings.Join(c.notes, "\n")) }

func (c *tumult) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// TestChaosRestart: if Redis and all gateways are restarted at once, nobody knows what was used. Without
// expect_nodes the provider still refuses nothing: a minute is waited for, and then all is as before.
func TestChaosRestart(t *testing.T) {
	if !*chaosAll {
		t.Skip("takes minutes; make chaos")
	}
	const learns = 65 * time.Second
	c := newTumult(t, newRedisDisaster(t), 0)
	c.flood()
	defer c.rest()
	time.Sleep(learns + 10*time.Second)
	c.within = learns
	c.suffer(mishap{name: "everything restarted, with Redis and without expect_nodes", lasts: time.Second, do: c.restartAll, undo: func() {}})
	c.rest()
	c.report()
}

// TestMadeUp: what is made up for is waited for until it has left the minute.
func TestMadeUp(t *testing.T) {
	const limit = chaosTPM * int64(bucket) / chaosCall / int64(time.Minute)
	for _, x := range []struct {
		ago  time.Duration
		want bool
	}{{10 * time.Second, true}, {50 * time.Second, true}, {70 * time.Second, false}} {
		c := &tumult{began: time.Now().Add(-2 * time.Minute)}
		for range 2 * time.Minute / bucket {
			c.buckets = append(c.buckets, map[string]int64{"much": limit})
		}
		if c.madeUp() {
			t.Error("the limit counts as made up for")
		}
		from := int((2*time.Minute - x.ago) / bucket)
		for i := range 5 * time.Second / bucket {
			c.buckets[from+int(i)]["most"] = limit
		}
		if got := c.madeUp(); got != x.want {
			t.Errorf("twice the limit %v ago: made up %v", x.ago, got)
		}
	}
}
