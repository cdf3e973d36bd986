package federation

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/testkit"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fleet is several pools of one capacity, each with its node, and one account, in
// virtual time of 10 ms steps.
type fleet struct {
	rng     *rand.Rand
	now     time.Duration
	account *Account
	sites   []*site
	mail    []letter
	used    []use
	beats   int
	ran     func(leaf int, cost int64) // what is done with what went
	axis    escrow.Axis
	pumped  func(site int, h escrow.Handle) // a call that waited goes
}

type site struct {
	delay  time.Duration
	pool   *escrow.Pool
	node   *Node
	leaves []escrow.NodeID
	tree   []Claim
	limits Amounts
	queued map[escrow.Handle]int // leaves
}

type letter struct {
	at    time.Duration
	site  int
	beat  *Beat
	reply *Reply
}

type use struct {
	at   time.Duration
	cost int64
}

func newFleet(limit int64, weights []escrow.Weight, delays ...time.Duration) *fleet {
	return newFleetOf(escrow.Tokens, limit, weights, delays...)
}

// newFleetOf is one whose limit is of an axis.
func newFleetOf(k escrow.Axis, limit int64, weights []escrow.Weight, delays ...time.Duration) *fleet {
	f := &fleet{axis: k, rng: rand.New(rand.NewPCG(1, 2)), account: NewAccount(DefaultRules(), 1_000_000, Options{Fresh: true})}
	for i, d := range delays {
		s := &site{delay: d, queued: map[escrow.Handle]int{}}
		s.limits[k] = limit
		s.pool = escrow.New(t0, escrow.Config{TPM: s.limits[escrow.Tokens], RPM: s.limits[escrow.Requests], Burst: 10 * time.Second, MaxQueue: 100_000, Shared: true, TicketWait: 10 * time.Second})
		s.node = NewNode(Config{Name: fmt.Sprint("n", i), Region: "r", Instance: fmt.Sprint("i", i), Rules: DefaultRules(), Seed: uint64(i)})
		for j, w := range weights {
			id := s.pool.Add(escrow.Root, escrow.Node{Weight: w})
			s.leaves = append(s.leaves, id)
			s.tree = append(s.tree, Claim{ID: id, Path: fmt.Sprint("t", j), Parent: -1, Weight: w, Leaf: true})
		}
		f.sites = append(f.sites, s)
	}
	f.pumped = func(i int, h escrow.Handle) {
		leaf := f.sites[i].queued[h]
		delete(f.sites[i].queued, h)
		f.went(i, leaf, h)
	}
	return f
}

func (s *site) report(now time.Time) *Report {
	r := &Report{Tree: Asked(s.pool, s.tree)}
	r.Survey(s.pool, now)
	r.Limits = s.limits
	r.Burst = Amounts{s.limits[0] / 6, s.limits[1] / 6}
	return r
}

func (f *fleet) step() {
	f.now += 10 * time.Millisecond
	now := t0.Add(f.now)
	kept := f.mail[:0]
	var due []letter
	for _, l := range f.mail {
		if l.at <= f.now {
			due = append(due, l)
		} else {
			kept = append(kept, l)
		}
	}
	f.mail = kept
	for _, l := range due {
		s := f.sites[l.site]
		if l.beat != nil {
			r := f.account.Beat(1_000_000+f.now.Milliseconds(), "", len(f.sites), l.beat)
			f.mail = append(f.mail, letter{f.now + s.delay, l.site, nil, &r})
			continue
		}
		f.do(l.site, s.node.Step(now, l.reply))
	}
	for i, s := range f.sites {
		if s.node.Due(now, Pressed(s.pool, now)) {
			f.beats++
			f.do(i, s.node.Step(now, s.report(now)))
		}
		for _, h := range s.pool.Pump(now, nil) {
			f.pumped(i, h)
		}
	}
}

func (f *fleet) do(i int, commands []Command) {
	now := t0.Add(f.now)
	s := f.sites[i]
	for _, c := range commands {
		switch c := c.(type) {
		case Send:
			f.mail = append(f.mail, letter{f.now + s.delay, i, c.Beat, nil})
		case Allow:
			s.pool.Allow(now, c.Axis, c.Allowance)
		case Share:
			s.pool.Share(c.ID, c.PPM)
		}
	}
}

// went settles a call at once with what it was booked at.
func (f *fleet) went(i, leaf int, h escrow.Handle) {
	s := f.sites[i]
	cost := s.pool.CostOf(int(h.Slot))
	f.used = append(f.used, use{f.now, cost[0]})
	f.ran(leaf, cost[0])
	s.pool.Settle(t0.Add(f.now), h, cost)
}

func (f *fleet) offer(i, leaf int, tokens int64) {
	s := f.sites[i]
	h, a := s.pool.Offer(t0.Add(f.now), escrow.Call{Leaf: s.leaves[leaf], Most: Amounts{tokens, 1}, MaxWait: time.Hour})
	switch a.Verdict {
	case escrow.Admitted:
		f.went(i, leaf, h)
	case escrow.Queued:
		s.queued[h] = leaf
	}
}

// peak is the largest rolling minute, as a part of the limit.
func (f *fleet) peak(limit int64) float64 {
	sum := int64(0)
	most := int64(0)
	from := 0
	for _, u := range f.used {
		sum += u.cost
		for f.used[from].at <= u.at-escrow.Window {
			sum -= f.used[from].cost
			from++
		}
		most = max(most, sum)
	}
	return float64(most) / float64(limit)
}

func TestFleet_Saturated(t *testing.T) {
	const limit = 6_000_000
	minutes := testkit.Rounds(1, 3)
	f := newFleet(limit, []escrow.Weight{1000, 3000}, time.Millisecond, 18*time.Millisecond, 35*time.Millisecond, 55*time.Millisecond)
	var got [2]int64 // by tenant
	f.ran = func(leaf int, cost int64) {
		if f.now > time.Minute {
			got[leaf] += cost
		}
	}
	for f.now < time.Duration(1+minutes)*time.Minute {
		for i := range f.sites {
			for leaf := range 2 {
				for f.rng.Float64() < 0.2*float64(1+i) {
					f.offer(i, leaf, 200+f.rng.Int64N(1800))
				}
			}
		}
		f.step()
	}
	used := float64(got[0]+got[1]) / float64(minutes) / limit
	share := float64(got[1]) / float64(got[0]+got[1])
	t.Logf("use %.4f of the limit, share %.4f, peak %.4f, %.1f beats a second", used, share, f.peak(limit), float64(f.beats)/f.now.Seconds())
	if peak := f.peak(limit); peak > 1 {
		t.Errorf("a rolling minute used %.4f of the limit", peak)
	}
	if used < 0.985 {
		t.Errorf("only %.4f of the limit was used, with calls waiting everywhere", used)
	}
	if level := f.account.Fill[0].Level; level > limit/60 {
		t.Errorf("there is a burst of %d left of a limit that is all used", level)
	}
	if most := 1.2 * 4 * f.now.Seconds(); float64(f.beats) > most {
		t.Errorf("%d beats, of which %.0f would be plenty: what waits has been told", f.beats, most)
	}
	if share < 0.74 || share > 0.76 {
		t.Errorf("the tenant of weight 3 beside one of weight 1 got %.4f, not 0.75", share)
	}
}
