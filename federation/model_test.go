package federation

import (
	"flag"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/mutation"
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

var tryMutants = flag.Bool("mutants", false, "break each rule of the protocol in turn, and see a test fail")

// mutant is a rule of the protocol that is broken in the source: what stands there, and
// what does instead.
type mutant struct {
	rule, file, old, new string
	world                string // in which it is seen to matter; else test names one
	test                 string
}

// mutants are the rules of doc.go, one by one. Each has to be caught.
var mutants = []mutant{
	{"a grant counts until it expires, not when it was issued", "safety.go", "return m.Seen + left", "return m.Seen", "pause", ""},
	{"what a dead process had is not given back", "account.go", "a.Gone.add(slot, most)", "_ = slot", "crash", ""},
	{"what a dead process had counts from now on", "safety.go", "a.Gone.sum(now-r.Slots, last)[k]", "a.Gone.sum(now-r.Slots, now)[k]", "crash", ""},
	{"only the answer to the last beat is taken", "node.go", "r.Seq != n.seq ||", "", "superseded", ""},
	{"a grant's time begins when the beat was sent", "node.go", "Since: n.sent.at.Add(-n.carried(k, e.Rate)), Until: n.sent.at.Add(", "Since: now, Until: now.Add(", "", "TestDrift"},
	{"a rate's time begins when the beat was sent", "node.go", "Since: n.sent.at.Add(-n.carried(k, e.Rate)),", "Since: n.sent.at.Add(-n.carried(k, e.Rate) - n.cfg.Rules.Eager),", "", "TestDrift"},
	{"less than a unit is carried on", "node_clock.go", "% n.cfg.Rules.Window.Microseconds()", "% (2 * n.cfg.Rules.Window.Microseconds())", "", "TestCarried"},
	{"what is less than a unit is not lost", "node_clock.go", "if rate <= 0 {", "if rate > 0 {", "", "TestCarried"},
	{"what a node has beyond whole units counts", "safety.go", "return floorDiv(parts+rate*ms, window)", "return floorDiv(rate*ms, window)", "", "TestDrift"},
	{"windows roll", "account.go", "	first := a.slotOf(a.Now) - a.Rules.Slots\n	a.Booked", "	first := a.slotOf(a.Now) / a.Rules.Slots * a.Rules.Slots\n	a.Booked", "rolling", ""},
	{"one slot more than a Window has is counted", "account.go", "	first := a.slotOf(a.Now) - a.Rules.Slots\n	a.Booked", "	first := a.slotOf(a.Now) - a.Rules.Slots + 1\n	a.Booked", "messages", ""},
	{"what a node held before counts beside what it is granted", "account.go", "m.Holding[k] = e.sane(a.Rules)", "m.Holding[k] = Envelope{Left: min(e.Left, 0)}", "messages", ""},
	{"what may be used is counted from when the beat was sent", "account.go", "min(b.Sent, a.Now)", "a.Now", "", "TestDrift"},
	{"what is used is booked by the latest that the clock may show", "node_book.go", "slot: floorDiv(n.upper(at),", "slot: floorDiv(n.lower(at),", "", "TestExactlyOnce"},
	{"what was used before a beat counts as used, whatever its slot", "safety.go", "if slot < past {", "if slot < now {", "", "TestRooms"},
	{"what is held counts", "safety.go", "held += m.Held[k]", "held += 0 * m.Held[k]", "settled", ""},
	{"what a dead process held counts", "account.go", "a.Gone.add(a.slotOf(max(expired, a.Now)), m.Held)", "", "settled crash", ""},
	{"what was told and not answered is told again", "node_book.go", "	for slot := range n.unsure {", "	for slot := range n.unsure {\n		if n.known.at(slot) == n.sent.booked.at(slot) {\n			continue\n		}", "refunds", ""},
	{"what others may use counts", "safety.go", "others += steps[slot-now]", "others += 0 * steps[slot-now]", "messages", ""},
	{"what others had counts a Window beyond its expiry", "safety.go", "a.slotOf(m.expiry(r))+r.Slots", "a.slotOf(m.expiry(r))", "pause", ""},
	{"who is silent counts until all that it had has left the Window", "account.go", "a.Now-m.Seen > a.Rules.window()+a.Rules.ttl()+a.Rules.slot()", "a.Now-m.Seen > a.Rules.ttl()", "pause", ""},
	{"room that lies ready at one node is not divided again", "safety.go", "return max(m.Holding[k].within(r, m.Parts[k], ms), m.Grant[k].within(r, m.Parts[k], ms))", "return m.Holding[k].within(r, m.Parts[k], ms)", "messages", ""},
	{"another server may have lost writes", "account.go", "incarnation != a.Incarnation ||", "", "failover", ""},
	{"a new memory grants nothing before it can know", "account.go", "learning := now + r.ttl() + r.window() + r.slot()", "learning := now + 0*r.ttl()", "loss", ""},
	{"a new memory waits for grants of the old one to expire", "account.go", "learning := now + r.ttl() + r.window() + r.slot()", "learning := now + r.window() + r.slot()", "loss", ""},
	{"only who ran for a Window counts among those who have told all", "account.go", "if a.toldFrom(m) < a.Born-a.Rules.window()-a.Rules.slot() {", "if m.Joined < a.Born+1e9 {", "expected", ""},
	{"who ran one after the other did not run side by side", "account.go", "m.Joined <= last.Joined && last.Joined <= m.Sent", "m.Joined <= last.Joined", "survivor", ""},
	{"a memory is not the first if a node knows of another", "account.go", "a.Lost || b.Epoch != 0 && b.Epoch != a.Epoch &&", "a.Lost || false &&", "", "TestBegin"},
	{"a memory is not the first if it came of another", "account.go", "fresh.Lost = true", "fresh.Lost = false", "restarted", ""},
	{"what was declared of a memory is good for no other", "account.go", "fresh.Lost = true", "fresh.Lost, fresh.Fresh = !a.Fresh, a.Fresh", "", "TestDeclare_Lost"},
	{"who runs, and knows of another memory, knows better than who declared this one", "account.go", "if a.Fresh && !a.Lost {", "if a.Fresh {", "", "TestDeclare_Known"},
	{"who starts does not", "account.go", " && !(a.Fresh && b.Join)", "", "", "TestDeclare_Known"},
	{"no memory is declared new while a node is heard of", "declare.go", "a.live(m) || ", "", "", "TestDeclare_InUse"},
	{"or while anything counts that one used", "declare.go", "!unused && ago <= counts", "unused && ago < 0", "", "TestDeclare_InUse"},
	{"what was told to another memory does not count as told", "account.go", "b.Epoch != a.Epoch || !known", "!known", "", "TestOtherMemory"},
	{"clocks may differ by a part in a thousand", "safety.go", "return ms + ceilDiv(ms, drift-1)", "return ms", "", "TestDrift"},
	{"a grant ends a part in a thousand early", "node.go", "n.sent.at.Add(left - left/drift)", "n.sent.at.Add(left)", "", "TestDrift"},
	{"told again, a slot is replaced and not added to", "account.go", "m.Booked.set(slot, x)", "m.Booked.add(slot, x)", "", "TestExactlyOnce"},
	{"what all is told, what is not told is gone", "account.go", "change(x.Slot, Amounts{})", "change(x.Slot, x.Used)", "", "TestAllTold"},
	{"a beat that is superseded is not booked", "account.go", "case known && m.Seq > b.Seq:", "case known && m.Seq > b.Seq && false:", "superseded", ""},
	{"what is granted after the store's clock has jumped ahead is not taken", "node.go", "n.wary = now.Add(n.cfg.Rules.TTL)", "n.wary = now", "", "TestClockAhead"},
	{"a clock that is put back far is a loss of memory", "account.go", "if a.Now-now > ", "if false && a.Now-now > ", "", "TestClockBack"},
	{"what may have been granted since a digest was made counts", "restore.go", "plus(rest.Held, may)", "minus(plus(rest.Held, may), may)", "restored", ""},
	{"what a digest contains of those who have not told counts", "restore.go", "used.add(x.Slot+shift, upTo(a.Capped, x.Used))", "_ = x.Slot + shift", "restored", ""},
	{"what a digest contains as held counts", "restore.go", "upTo(a.Capped, plus(rest.Held, may))", "upTo(a.Capped, may)", "restored settled", ""},
	{"the older a digest is, the more may have been granted since", "restore.go", "b.Digest.Now+b.Age+elapsed", "b.Digest.Now+elapsed", "", "TestSince"},
	{"what was granted by a memory can be used for a TTL after its loss", "restore.go", "b.Age+elapsed(r.ttl())", "b.Age", "", "TestSince"},
	{"what those who tell have given back since may have been granted to others", "restore.go", "max(0, limit-counts[k])+refunded[k]", "max(0, limit-counts[k])", "", "TestSince"},
	{"what others may have given back may have been granted to them", "restore.go", "plus(refunded, within(0, rest.Refundable, maxBooked))", "refunded", "", "TestSince"},
	{"a digest may not contain what was told later", "node_copy.go", "lesser(x.Used, n.sent.booked.at(x.Slot))", "x.Used", "", "TestContained"},
	{"only if all are there nobody else was granted anything since", "restore.go", "expect > 0 && there >= expect", "expect > 0 && there >= 0", "restored expected", ""},
	{"what one who tells late used does not count twice", "restore.go", "next.Late = a.Now >= a.Learning", "next.Late = false", "", "TestRestored_Late"},
	{"what others used who have not told still counts then", "restore.go", "		a.restored(expect)\n", "		a.countUntold(nil)\n", "restored", ""},
	{"what was counted for those who tell late counts no more, whoever tells next", "restore.go", "next.Counted.add(slot, x.Used)", "", "", "TestRestored_Late"},
	{"what those used who never tell counts on", "restore.go", "a.count(slot, x.Used, next.CountedIn)", "", "restored", ""},
	{"what those may use who have not told counts", "restore.go", "may = rest.May", "may = Amounts{}", "restored expected", ""},
	{"a digest has another clock's slots", "restore.go", "ceilDiv(a.Before.Shift, a.Rules.slot())", "0 * a.Before.Shift", "", "TestRestored_Clock"},
	{"a digest that no memory can have made is none", "digest.go", " && d.possible(r)", "", "", "TestDigest_Impossible"},
	{"no digest can claim more than a limit", "restore.go", "used[k] = min(used[k], limit)", "used[k] += 0 * limit", "", "TestRestored_Bounds"},
	{"what a node tells of the memory before is bounded", "restore.go", "c.within(a.Rules)", "*c", "", "TestRestored_Age"},
	{"a limit that is raised after a loss holds a Window later", "share.go", "limit = min(limit, capped)", "_ = capped", "", "TestRestored_Raised"},
	{"what a journal tells of a process that ran for less than a Window is not all", "restore_journal.go", "min(m.Joined, c.Journal.Joined)", "min(m.Joined, 0*c.Journal.Joined)", "", "TestJournal_AllRestarted"},
	{"who was away for long does not know who was there meanwhile", "restore_journal.go", "c.Journal == nil || c.Age > a.Rules.window()/2", "c.Journal == nil", "", "TestJournal_AllRestarted"},
	{"a node under another name has no journal", "node_memory.go", " || m.Node != n.cfg.Name", "", "", "TestJournal_Renamed"},
	{"what journals tell counts", "account.go", "a.bookJournals()", "", "", "TestJournal_AllRestarted"},
	{"a memory that learns has no digest", "account.go", "if r.Status == Granted {\n		d :=", "if r.Status != Resend {\n		d :=", "", "TestRestored"},
	{"the store's clock never runs backwards", "account.go", "a.Now = max(a.Now, now)", "a.Now = now", "clock", ""},
}

// TestMutants breaks each rule, in the source itself, and runs the test that has to fail.
// Without -mutants it only sees that the source is as the table says.
func TestMutants(t *testing.T) {
	var list []mutation.Mutant
	for _, m := range mutants {
		if m.test == "" {
			m.test = "TestModel_Sampled"
		}
		list = append(list, mutation.Mutant{Rule: m.rule, File: m.file, Old: m.old, New: m.new, Test: m.test, Args: []string{"-world", m.world}})
	}
	mutation.Run(t, *tryMutants, list, "-orders", "8000", "-rapid.checks", "1000", "-rapid.nofailfile")
}
