package parts

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plain is a dumb account of what processes said that they use, and were let in with since, by
// owner, limit and process: one line each.
type plain struct {
	now   int64
	lines []line
}

type line struct {
	owner, limit, process string
	kind                  Kind
	amount, held, told    int64
	ends                  int64
}

// counts reports whether a line counts still.
func (p *plain) counts(l line) bool {
	switch l.kind {
	case Rolling:
		return p.now <= l.told+62_500
	case Period:
		return p.now <= l.ends+60_000
	}
	return p.now <= l.told+2500
}

func (p *plain) sum(owner, limit string) (amount, held int64) {
	for _, l := range p.lines {
		if l.owner == owner && l.limit == limit && p.counts(l) {
			amount += l.amount
			if p.now <= l.told+2500 {
				held += l.held
			}
		}
	}
	return amount, held
}

func (p *plain) at(owner, limit, process string) *line {
	return &p.lines[slices.IndexFunc(p.lines, func(l line) bool { return l.owner == owner && l.limit == limit && l.process == process })]
}

// member is a process of the test: what it uses by owner and limit.
type member struct {
	name string
	seq  int64
	used map[string]int64
}

var askLimits = []struct {
	name  string
	kind  Kind
	limit int64
}{{"minute", Rolling, 20}, {"slots", Slots, 6}, {"budget", Period, 60}}

// TestAsk_Oracle: calls of some processes are let in exactly when there is room in all their limits
// by what all processes said last and were let in with since; a call that is not leaves no trace.
func TestAsk_Oracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &plain{now: 1_000_000}
		owners := []string{"t/x", "t"}
		accounts := map[string]*Account{"t/x": {}, "t": {}}
		members := []*member{}
		for i := range rapid.IntRange(1, 4).Draw(t, "processes") {
			members = append(members, &member{name: fmt.Sprint(i), used: map[string]int64{}})
		}
		in := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p.now += rapid.Int64Range(0, 900).Draw(t, "ms")
			if rapid.IntRange(0, 20).Draw(t, "long") == 0 {
				p.now += rapid.SampledFrom([]int64{2600, 62_600}).Draw(t, "pause")
			}
			m := rapid.SampledFrom(members).Draw(t, "process")
			in += m.ask(t, p, owners[rapid.IntRange(0, 1).Draw(t, "from"):], accounts)
		}
	})
}

// ask has a process tell what it uses and ask for some calls, of all these owners.
func (m *member) ask(t *rapid.T, p *plain, owners []string, accounts map[string]*Account) (in int) {
	q := &Ask{}
	list := []*Account{}
	m.seq++
	for _, o := range owners {
		b := &Beat{Owner: o, Instance: m.name, Seq: m.seq, Timed: true}
		for _, l := range askLimits {
			key := o + l.name
			m.used[key] -= rapid.Int64Range(0, m.used[key]).Draw(t, "given back")
			held := rapid.Int64Range(0, m.used[key]).Draw(t, "held")
			part := int64(0)
			want := m.used[key]
			if rapid.IntRange(0, 3).Draw(t, "leased") == 0 {
				part = m.used[key] + rapid.Int64Range(0, 2).Draw(t, "part")
				want = rapid.Int64Range(0, l.limit).Draw(t, "want")
			}
			b.Claims = append(b.Claims, Claim{Name: l.name, Kind: l.kind, Limit: l.limit, Ends: 1_100_000, Used: m.used[key], Held: held, Part: part, Want: want})
			p.lines = slices.DeleteFunc(p.lines, func(x line) bool { return x.owner == o && x.limit == l.name && x.process == m.name })
			p.lines = append(p.lines, line{o, l.name, m.name, l.kind, max(part, m.used[key]), held, p.now, 1_100_000})
		}
		q.Beats = append(q.Beats, b)
		list = append(list, accounts[o])
	}
	for range rapid.IntRange(0, 3).Draw(t, "calls") {
		var c Call
		for i := range owners {
			for j, l := range askLimits {
				amount := rapid.Int64Range(0, l.limit/2).Draw(t, "amount")
				c = append(c, Take{Beat: i, Claim: j, Amount: amount, Rest: l.kind == Period && rapid.Bool().Draw(t, "rest")})
			}
		}
		q.Calls = append(q.Calls, c)
	}
	ans := q.Tell(p.now, list)
	let := map[string]int64{}
	for n, c := range q.Calls {
		want, given := p.let(m.name, owners, c)
		if v := ans.Verdicts[n]; v.In != want || want && !slices.Equal(v.Given, given) {
			t.Fatalf("at %d call %d %+v of %s is answered %+v, want %v %v of\n%+v", p.now, n, c, m.name, v, want, given, p.lines)
		}
		if want {
			in++
			for i, x := range c {
				m.used[owners[x.Beat]+askLimits[x.Claim].name] += given[i]
				let[owners[x.Beat]+askLimits[x.Claim].name] += given[i]
			}
		}
	}
	for i, r := range ans.Replies {
		for j, part := range r.Parts {
			key := owners[i] + askLimits[j].name
			l := p.at(owners[i], askLimits[j].name, m.name)
			l.amount = max(l.amount, part.Part) // it may use that from now on
			if let[key] > 0 && part.Part < m.used[key] {
				t.Fatalf("%s uses %d of %s, some of which was let in now, and has a part of %d", m.name, m.used[key], key, part.Part)
			}
		}
	}
	return in
}

// let is what should come of a call.
func (p *plain) let(process string, owners []string, c Call) (in bool, given []int64) {
	for _, x := range c {
		l := askLimits[x.Claim]
		sum, held := p.sum(owners[x.Beat], l.name)
		free := max(l.limit-sum, 0)
		if l.kind == Period && p.now > 1_160_000 {
			free = 0
		}
		amount := x.Amount
		if x.Rest && amount > free && held == 0 && free > 0 {
			amount = free
		}
		if amount > free {
			return false, nil
		}
		given = append(given, amount)
	}
	for i, x := range c {
		l := p.at(owners[x.Beat], askLimits[x.Claim].name, process)
		l.amount += given[i]
		l.held += given[i]
	}
	return true, given
}

// TestMark: what came to be used is known by its second, and what is used no more is what came
// first.
func TestMark(t *testing.T) {
	h := Hold{}
	for _, step := range []struct {
		now, used int64
		want      []Mark
	}{
		{1000, 5, []Mark{{1, 5}}},
		{1900, 7, []Mark{{1, 7}}},
		{2000, 7, []Mark{{1, 7}}},
		{3100, 10, []Mark{{1, 7}, {3, 3}}},
		{4000, 8, []Mark{{1, 5}, {3, 3}}},
		{5000, 2, []Mark{{3, 2}}},
		{6000, 0, nil},
	} {
		h.Used = step.used
		h.mark(step.now)
		if !slices.Equal(h.Marks, step.want) {
			t.Errorf("at %d: %v, want %v", step.now, h.Marks, step.want)
		}
	}
}

// TestWait: when there is room is told by what all used and when, by who is silent, and by who has
// more than it uses.
func TestWait(t *testing.T) {
	a := Account{Now: 100_500, Members: []Member{
		{Instance: "i", Holds: []Hold{{Name: "x", Kind: Rolling, Seen: 100_000, Used: 5, High: 5, Marks: []Mark{{50, 3}, {70, 2}}}}},
		{Instance: "j", Holds: []Hold{{Name: "x", Kind: Rolling, Seen: 100_000, Used: 1, High: 4, Marks: []Mark{{60, 1}}}}},
		{Instance: "k", Holds: []Hold{{Name: "x", Kind: Rolling, Seen: 80_000, Used: 2, High: 2}}},
	}}
	h := &a.Members[0].Holds[0]
	of := a.peers(&Beat{Claims: []Claim{{Name: "x"}}})["x"]
	for lack, want := range map[int64]int64{1: 1000, 3: 1000, 4: 11_200, 6: 11_200, 7: 21_200, 8: 31_200, 9: 31_200, 10: 43_200, 99: 60_000} {
		if got := a.wait(h, of, lack); got != want {
			t.Errorf("for %d more it takes %d ms, want %d", lack, got, want)
		}
	}
}

// TestAsk_Twice: an Ask that comes twice, or behind a later beat of one of its owners, changes nothing.
func TestAsk_Twice(t *testing.T) {
	ask := func(seq int64) *Ask {
		return &Ask{
			Beats: []*Beat{
				{Owner: "t/x", Instance: "i", Seq: seq, Claims: []Claim{{Name: "n", Kind: Rolling, Limit: 5}}},
				{Owner: "t", Instance: "i", Seq: seq, Claims: []Claim{{Name: "n", Kind: Rolling, Limit: 5}}},
			},
			Calls: []Call{{{Beat: 0, Amount: 3}, {Beat: 1, Amount: 3}}},
		}
	}
	list := []*Account{{}, {}}
	if v := ask(2).Tell(1000, list).Verdicts[0]; !v.In {
		t.Fatalf("it is answered %+v", v)
	}
	list[1].Beat(1000, &Beat{Owner: "t", Instance: "i", Seq: 3, Claims: []Claim{{Name: "n", Kind: Rolling, Limit: 5, Used: 3, Part: 3, Want: 3}}})
	before := fmt.Sprint(*list[0], *list[1])
	for _, seq := range []int64{1, 2, 3} {
		if ans := ask(seq).Tell(1000, list); ans.Verdicts[0].In || ans.Replies[0].Seq != 0 || ans.Replies[1].Seq != 0 {
			t.Errorf("beat %d is answered %+v", seq, ans)
		}
	}
	if after := fmt.Sprint(*list[0], *list[1]); after != before {
		t.Errorf("accounts were %s, and are %s", before, after)
	}
}
