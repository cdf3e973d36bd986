package federation

import (
	"flag"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

var (
	wholeSearch = flag.Bool("whole", false, "search the small worlds to the end, or until there are very many states")
	orders      = flag.Int("orders", 40, "in how many orders to sample each small world")
	only        = flag.String("world", "", "search only this small world")
)

// ordinary is how many states of each world are searched if no more is asked for, and
// many if all are; sample is how many in each other order.
const ordinary, many, sample = 7_500, 1_500_000, 100

// quick is ordinary in a quick run.
const quick = 1_500

// tiny are rules of which a Window is over in no time.
func tiny(slots, ttl int64) Rules {
	const slot = 100 * time.Millisecond
	return Rules{Window: time.Duration(slots) * slot, Slots: slots, Beat: slot, Eager: slot / 2, TTL: time.Duration(ttl) * slot}
}

// playgrounds are the small worlds. Of each rule of the protocol there is one in which it
// matters.
func playgrounds() []*playground {
	const tick = 50 * time.Millisecond
	all := []Envelope{{2, 0, 200}, {}}
	base := playground{rules: tiny(1, 2), tick: tick, limit: 1, names: 2, procs: 2, ticks: 4, seqs: 2, fresh: true, servers: 1, wishes: all}
	restored := *base.but("", func(g *playground) {
		g.running = true
		g.prompt = true
		g.rules = tiny(4, 1)
		g.tick = 100 * time.Millisecond
		g.limit = 2
		g.servers = 2
		g.ticks = 9
		g.seqs = 20
		g.wishes = []Envelope{{2, 0, 100}, {1, 0, 100}}
	})
	return []*playground{
		base.but("superseded", func(g *playground) {
			g.late = true
			g.ticks = 1
		}),
		base.but("messages", func(g *playground) {
			g.limit = 2
			g.twice = 1
		}),
		base.but("rolling", func(g *playground) {
			g.running, g.rules, g.names, g.procs, g.ticks, g.seqs, g.wishes = true, tiny(2, 1), 1, 1, 7, 4, all[:1]
		}),
		base.but("rates", func(g *playground) {
			g.limit = 2
			g.wishes = []Envelope{{1, 0, 200}, {0, 1, 200}}
		}),
		base.but("pause", func(g *playground) {
			g.rules = tiny(2, 2)
			g.seqs = 1
			g.ticks = 7
		}),
		base.but("crash", func(g *playground) {
			g.limit = 2
			g.names = 1
			g.crash = true
		}),
		base.but("fork", func(g *playground) {
			g.limit = 2
			g.names = 1
			g.fork = true
			g.twice = 1
		}),
		base.but("refunds", func(g *playground) {
			g.limit = 2
			g.names = 1
			g.procs = 1
			g.seqs = 4
			g.ticks = 2
			g.refund = true
		}),
		base.but("settled", func(g *playground) { g.settle = true }),
		base.but("settled crash", func(g *playground) {
			g.names = 1
			g.settle = true
			g.crash = true
			g.ticks = 6
		}),
		base.but("loss", func(g *playground) {
			g.servers = 2
			g.ticks = 5
		}),
		base.but("failover", func(g *playground) {
			g.servers = 2
			g.old = true
		}),
		base.but("expected", func(g *playground) {
			g.procs = 3
			g.servers = 2
			g.expect = 2
			g.crash = true
			g.ticks = 7
			g.seqs = 3
		}),
		base.but("survivor", func(g *playground) {
			g.running = true
			g.procs = 4
			g.servers = 2
			g.expect = 2
			g.crash = true
			g.renamed = true
			g.ticks = 1
			g.seqs = 3
			g.wishes = all[:1]
		}),
		base.but("restarted", func(g *playground) {
			g.running = true
			g.names = 1
			g.servers = 2
			g.old = true
			g.expect = 1
			g.crash = true
			g.ticks = 2
			g.seqs = 3
		}),
		base.but("begin", func(g *playground) {
			g.fresh = false
			g.procs = 3
			g.expect = 2
			g.crash = true
			g.ticks = 2
			g.seqs = 3
		}),
		restored.but("restored", func(*playground) {}),
		restored.but("restored of more", func(g *playground) {
			g.names = 3
			g.procs = 3
		}),
		restored.but("restored stale", func(g *playground) { g.rules = tiny(2, 1) }),
		restored.but("restored refunds", func(g *playground) { g.refund = true }),
		restored.but("restored settled", func(g *playground) {
			g.settle = true
			g.ticks = 5 // who is silent for longer may end nothing
		}),
		restored.but("restored expected", func(g *playground) {
			g.procs = 3
			g.expect = 2
			g.crash = true
			g.renamed = true
		}),
		base.but("clock", func(g *playground) {
			g.running, g.rules, g.limit, g.back, g.ticks, g.wishes = true, tiny(3, 3), 3, 4, 5, []Envelope{{3, 0, 300}, {0, 3, 300}}
		}),
	}
}

// but is a playground with a change.
func (g playground) but(name string, change func(*playground)) *playground {
	g.name = name
	change(&g)
	return &g
}

// TestModel: whatever happens in a small world, no rolling Window uses more than the limit.
func TestModel(t *testing.T) {
	total := 0
	for _, g := range playgrounds() {
		if *only != "" && *only != g.name {
			continue
		}
		most := testkit.Rounds(quick, ordinary)
		if *wholeSearch {
			most = many
		}
		start := time.Now()
		s := explore(g, most, 0)
		total += len(s.seen)
		end := "the end"
		if len(s.seen) == most {
			end = "the bound"
		}
		t.Logf("%-14s %8d states, to %s, %v", g.name, len(s.seen), end, time.Since(start).Round(time.Millisecond))
		if s.bad != "" {
			t.Errorf("%s: more than the limit is used within a Window %s", g.name, s.bad)
		}
	}
	t.Logf("%d states", total)
}

// TestModel_Sampled searches a part of each world in several orders: it finds at once what
// an orderly search comes to late.
func TestModel_Sampled(t *testing.T) {
	total := 0
	orders := uint64(testkit.Rounds(*orders/4, *orders))
	for _, g := range playgrounds() {
		if *only != "" && *only != g.name {
			continue
		}
		for seed := range orders {
			if !g.prompt {
				break
			}
			if bad := walk(g, seed+1); bad != "" {
				t.Fatalf("%s: more than the limit is used within a Window, caught after %d walks, %s", g.name, seed+1, bad)
			}
		}
		for seed := range orders {
			s := explore(g, sample, seed+1)
			total += len(s.seen)
			if s.bad != "" {
				t.Fatalf("%s: more than the limit is used within a Window, caught after %d states, seed %d, %s", g.name, total, seed+1, s.bad)
			}
		}
	}
}
