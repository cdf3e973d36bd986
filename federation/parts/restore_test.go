package parts

import (
	"testing"
	"time"
)

// fellow is a process that wants all there is of a limit.
type fellow struct {
	h    *Holder
	used int64
}

func newFellow(name string) *fellow { return &fellow{h: NewHolder("o", name, 1)} }

// wants is a claim of some of a limit of 100.
func (f *fellow) wants(kind Kind, want, tail int64) Claim {
	return Claim{Name: "x", Kind: kind, Limit: 100, Ends: 900_000, Used: f.used, Want: want, Tail: tail}
}

// tells tells an account, and hears the answer.
func (f *fellow) tells(a *Account, now int64, c Claim) Reply {
	at := time.UnixMilli(now)
	r := a.Beat(now, f.h.Beat(at, true, []Claim{c}))
	f.h.Answered(at, &r)
	return r
}

// beat tells an account that all is wanted.
func (f *fellow) beat(a *Account, kind Kind, now int64) Reply {
	return f.tells(a, now, f.wants(kind, 100, map[Kind]int64{Slots: 4000}[kind]))
}

// lostAfter is an account that was lost 9 s after another began, of which two processes had half each.
func lostAfter(kind Kind) (here, gone *fellow, a *Account) {
	a = &Account{}
	here = newFellow("here")
	gone = newFellow("gone")
	for now := int64(1000); now <= 10_000; now += 1000 {
		here.beat(a, kind, now)
		gone.beat(a, kind, now+100)
		here.used = min(40, here.h.parts["x"])
		gone.used = min(40, gone.h.parts["x"])
	}
	return here, gone, &Account{}
}

// TestRestored: an account that was lost grants again after a TTL if one process tells that knew it: not more than is
// left if all others have used what they may have come to have.
func TestRestored(t *testing.T) {
	for _, kind := range []Kind{Rolling, Slots, Period} {
		here, _, a := lostAfter(kind)
		had := here.h.parts["x"]
		began := int64(11_000)
		for now := began; now <= began+ttl; now += 250 {
			if p := here.beat(a, kind, now); p.Parts[0].Part != had || !p.Learning {
				t.Fatalf("%s: %d ms after the loss it has %d, want the %d that it had", kind, now-began, p.Parts[0].Part, had)
			}
		}
		if r := here.beat(a, kind, began+ttl+1); r.Parts[0].Part != had || r.Parts[0].Others != 100-had || r.Learning {
			t.Errorf("%s: then it is answered %+v, want the %d that it had, because the other may have the rest", kind, r, had)
		}
		over := map[Kind]int64{Rolling: began + ttl + window, Slots: began + ttl + 4000, Period: 900_000 + window}[kind]
		for now := began + ttl + 1000; now <= over; now += 1000 {
			if r := here.beat(a, kind, now); r.Parts[0].Part > had {
				t.Fatalf("%s: %d ms after the loss it has %d, while the other's may still count", kind, now-began, r.Parts[0].Part)
			}
		}
		if kind == Period {
			continue
		}
		if r := here.beat(a, kind, over+1); r.Parts[0].Part != 100 {
			t.Errorf("%s: when nothing of the other counts any more it has %d", kind, r.Parts[0].Part)
		}
	}
}

// TestRestored_All: if all tell who were heard of, nothing else counts.
func TestRestored_All(t *testing.T) {
	for _, kind := range []Kind{Rolling, Slots, Period} {
		here, there, a := lostAfter(kind)
		there.used = 0
		for now := int64(11_000); now <= 16_000; now += 500 {
			here.beat(a, kind, now)
			there.beat(a, kind, now+10)
		}
		if got := here.h.parts["x"] + there.h.parts["x"]; got != 100 {
			t.Errorf("%s: together they have %d of 100", kind, got)
		}
	}
}

// TestRestored_Nobody: if nobody tells who knows of a lost account, all that was used of it has to leave the Window.
func TestRestored_Nobody(t *testing.T) {
	here, _, a := lostAfter(Rolling)
	late := here.h.Beat(time.UnixMilli(10_900), true, []Claim{claim(Rolling, 0, 0, 100)})
	a.Beat(11_000, late)
	other := newFellow("other")
	for now := int64(11_100); now <= 11_000+ttl+window; now += 500 {
		if r := other.beat(a, Rolling, now); r.Parts[0].Part > 0 {
			t.Fatalf("%d ms after the loss it is granted %d", now-11_000, r.Parts[0].Part)
		}
	}
	if r := other.beat(a, Rolling, 11_001+ttl+window); r.Parts[0].Part != 100 {
		t.Errorf("a minute after the loss it is granted %d", r.Parts[0].Part)
	}
}

// TestRestored_Late: who tells after an account was restored takes its own off what counts for nobody knows whom.
func TestRestored_Late(t *testing.T) {
	here, there, a := lostAfter(Period)
	for now := int64(11_000); now <= 14_000; now += 500 {
		here.beat(a, Period, now)
	}
	there.used = there.h.parts["x"]
	there.beat(a, Period, 14_100)
	there.beat(a, Period, 14_200)
	r := here.beat(a, Period, 14_300)
	if p := r.Parts[0]; p.Others != there.used {
		t.Errorf("others count %d, want the %d that the other has used", p.Others, there.used)
	}
}

// TestHad: of what a process had the account may count no more than the process has told since, even if there was no answer.
func TestHad(t *testing.T) {
	here, _, _ := lostAfter(Period)
	tells := func(used int64) int64 {
		c := claim(Period, used, 0, 100)
		return here.h.Beat(time.UnixMilli(30_000), true, []Claim{c}).Claims[0].Had
	}
	if had := []int64{tells(50), tells(20), tells(45), tells(45)}; had[0] != 50 || had[1] != 50 || had[2] != 20 || had[3] != 20 {
		t.Errorf("it told 50, 20 and 45, and says that of it were counted at least %v", had)
	}
}

// TestHad_NowAndThen: what a process heard of a limit of which it does not tell in each beat it still knows a moment later. Of what it had there
// the account counts only what it used, and nothing of slots.
func TestHad_NowAndThen(t *testing.T) {
	for kind, had := range map[Kind]int64{Rolling: 3, Period: 3, Slots: 0} {
		for _, answered := range []bool{true, false} {
			a := &Account{}
			tell(a, 900, "other", 1, claim(kind, 2, 0, 2))
			h := NewHolder("o", "i", 1)
			seldom := claim(kind, 3, 0, 5)
			often := seldom
			often.Name = "y"
			beat := func(ms int64, claims ...Claim) *Beat {
				b := h.Beat(time.UnixMilli(ms), true, claims)
				r := a.Beat(ms, b)
				if len(claims) == 2 || answered {
					h.Answered(time.UnixMilli(ms), &r)
				}
				return b
			}
			beat(1000, often, seldom)
			beat(1500, often)
			got := beat(2000, often, seldom).Claims[1]
			if got.Sum != 2 || got.Peers != 1 || got.Had != had {
				t.Errorf("%s, answered %v: it tells that others had %d and were %d, and that %d of it were counted, of which it used 3", kind, answered, got.Sum, got.Peers, got.Had)
			}
			beat(2500, often)
			if k := h.kept["x"]; answered && k.at != 2000 {
				t.Errorf("it knows it as of %d", k.at)
			}
			beat(2000+ttl, often)
			beat(2001+ttl, often)
			if k, there := h.kept["x"]; answered && there {
				t.Errorf("after a TTL it still knows it as of %d", k.at)
			}
		}
	}
}

// TestRestored_Old: a beat that was sent before a loss, and comes after it, tells nothing: its process may have heard of others since.
func TestRestored_Old(t *testing.T) {
	a := &Account{}
	here := newFellow("here")
	gone := newFellow("gone")
	here.beat(a, Rolling, 1000)
	here.beat(a, Rolling, 1500)
	old := here.h.Beat(time.UnixMilli(2000), true, []Claim{{Name: "x", Kind: Rolling, Limit: 100, Want: 10}})
	for now := int64(2000); now <= 5000; now += 500 {
		here.beat(a, Rolling, now)
		gone.beat(a, Rolling, now)
	}
	a = &Account{}
	a.Beat(5100, old)
	for now := int64(5500); now <= 5100+ttl+1000; now += 250 {
		here.beat(a, Rolling, now)
		if p := here.h.parts["x"] + gone.h.parts["x"]; p > 100 {
			t.Fatalf("%d ms after the loss it has %d, and the other may have used %d", now-5100, here.h.parts["x"], gone.h.parts["x"])
		}
	}
}

// TestRestored_Resting: a process that rests and tells does not make up for one that is gone. What that one may have been
// granted since anybody heard of it counts.
func TestRestored_Resting(t *testing.T) {
	for _, kind := range []Kind{Rolling, Slots, Period} {
		a := &Account{}
		here := newFellow("here")
		gone := newFellow("gone")
		rests := newFellow("rests")
		tells := func(f *fellow, want, now int64) { f.tells(a, now, f.wants(kind, want, 4000)) }
		tells(rests, 5, 1000)
		rests.used = 5
		tells(rests, 5, 1100)
		for now := int64(4000); now <= 12_000; now += 500 {
			tells(here, 10, now)
			tells(gone, 10, now+50)
		}
		tells(gone, 14, 12_100)
		gone.used = gone.h.parts["x"]
		a = &Account{}
		for now := int64(12_500); now <= 12_500+2*ttl; now += 250 {
			tells(here, 100, now)
			tells(rests, 5, now+10)
		}
		if sum := here.h.parts["x"] + rests.h.parts["x"] + gone.used; gone.used <= 10 || sum > 100 {
			t.Errorf("%s: together they may use %d of 100, with the %d of the one that is gone", kind, sum, gone.used)
		}
	}
}

// TestRestored_Moved: what went from one process to another between the last answers to both counts once, if both tell. It is not
// kept back for as long as the calls of somebody else might run.
func TestRestored_Moved(t *testing.T) {
	for _, kind := range []Kind{Rolling, Slots} {
		a := &Account{}
		one := newFellow("one")
		two := newFellow("two")
		tells := func(f *fellow, want, now int64) { f.tells(a, now, f.wants(kind, want, window)) }
		for now := int64(1000); now <= 10_000; now += 500 {
			tells(one, 60, now)
			tells(two, 40, now+100)
		}
		tells(one, 0, 10_500) // after this the two have heard of one another at different times
		a = &Account{}
		for now := int64(11_000); now <= 11_000+ttl+1000; now += 250 {
			tells(one, 0, now)
			tells(two, 100, now+10)
		}
		if got := two.h.parts["x"]; got != 100 {
			t.Errorf("%s: of 100 that nobody else has it has %d", kind, got)
		}
	}
}

// TestRestored_Lasting: a process whose part lasted makes up for itself, however long ago it had heard of the account.
func TestRestored_Lasting(t *testing.T) {
	for _, kind := range []Kind{Rolling, Slots, Period} {
		a := &Account{}
		here := newFellow("here")
		lasting := newFellow("lasting")
		tells := func(f *fellow, want, lasts, now int64) {
			c := f.wants(kind, want, window)
			c.Lasts = lasts
			f.tells(a, now, c)
		}
		tells(lasting, 5, 40_000, 1000)
		for now := int64(1000); now <= 30_000; now += 500 {
			tells(here, 10, 0, now)
		}
		a = &Account{}
		for now := int64(30_500); now <= 30_500+2*ttl; now += 250 {
			tells(here, 100, 0, now)
			tells(lasting, 5, 0, now+10)
		}
		if got := here.h.parts["x"]; got != 95 {
			t.Errorf("%s: beside 5 that lasted it has %d of 100", kind, got)
		}
	}
}

// TestRestored_Before: of those who have told, who was heard of is asked of the ones that heard last. A process that was there when another, which
// rests since, heard of it, and ended in order, is not waited for.
func TestRestored_Before(t *testing.T) {
	for _, kind := range []Kind{Rolling, Slots, Period} {
		a := &Account{}
		here := newFellow("here")
		left := newFellow("left")
		rests := newFellow("rests")
		tells := func(f *fellow, want, now int64) { f.tells(a, now, f.wants(kind, want, window)) }
		for now := int64(1000); now <= 3000; now += 500 {
			tells(here, 10, now)
			tells(left, 10, now+50)
		}
		tells(rests, 0, 3100)
		a.Beat(4000, left.h.Leave(time.UnixMilli(4000), []Claim{left.wants(kind, 0, window)}))
		for now := int64(4500); now <= 12_000; now += 500 {
			tells(here, 10, now)
		}
		a = &Account{}
		for now := int64(12_500); now <= 12_500+2*ttl; now += 250 {
			tells(here, 100, now)
			tells(rests, 0, now+10)
		}
		want := map[Kind]int64{Rolling: 100, Slots: 100, Period: 90} // of a period counts what the one that left had when the other heard of it
		if got := here.h.parts["x"]; got != want[kind] {
			t.Errorf("%s: of 100 that nobody else has it has %d, want %d", kind, got, want[kind])
		}
	}
}

// TestRestored_Gone: what a process had that was heard of no more before the loss counts on, for as long as it would have.
func TestRestored_Gone(t *testing.T) {
	for _, kind := range []Kind{Rolling, Slots, Period} {
		a := &Account{}
		here := newFellow("here")
		gone := newFellow("gone")
		for now := int64(1000); now <= 4000; now += 500 {
			here.beat(a, kind, now)
			gone.beat(a, kind, now+100)
		}
		for now := int64(4500); now <= 8000; now += 500 {
			here.beat(a, kind, now)
		}
		a = &Account{}
		for now := int64(8100); now <= 8100+ttl+500; now += 250 {
			here.beat(a, kind, now)
		}
		if got, may := here.h.parts["x"], 100-gone.h.parts["x"]; got != may {
			t.Errorf("%s: it has %d, want the %d that a process did not have that died before the loss", kind, got, may)
		}
	}
}

// TestRestored_Left: a process that has just ended in order is not waited for. What it used of a period counts.
func TestRestored_Left(t *testing.T) {
	a := &Account{}
	here := newFellow("here")
	left := newFellow("left")
	tells := func(want, now int64) { here.tells(a, now, here.wants(Period, want, 0)) }
	for now := int64(1000); now <= 4000; now += 500 {
		tells(10, now)
		left.beat(a, Period, now+100)
	}
	left.used = 30
	a.Beat(4400, left.h.Leave(time.UnixMilli(4400), []Claim{left.wants(Period, 30, 0)}))
	tells(10, 4500)
	a = &Account{}
	for now := int64(5000); now <= 5000+2*ttl; now += 250 {
		tells(100, now)
	}
	if got := here.h.parts["x"]; got != 70 {
		t.Errorf("of 100 of which 30 are used it has %d", got)
	}
}

// TestSucceed: a process that was started again has to tell what the one before it used if the account has forgotten that, and only then.
// Together with what others believe of the one before it counts once.
func TestSucceed(t *testing.T) {
	for _, lost := range []bool{false, true} {
		here, gone, fresh := lostAfter(Period)
		a := fresh
		again := newFellow("again")
		if lost {
			again.h.Succeed(gone.h.Taught())
		} else {
			a = &Account{}
			here.beat(a, Period, 11_000)
			again.h.Succeed(a.Epoch)
		}
		for now := int64(11_000); now <= 11_000+2*ttl; now += 250 {
			here.beat(a, Period, now)
			again.beat(a, Period, now+10)
			if again.h.Forgotten() {
				again.used = gone.used
			}
		}
		if again.h.Forgotten() != lost {
			t.Errorf("lost: %v; it is forgotten: %v", lost, again.h.Forgotten())
		}
		r := here.beat(a, Period, 11_100+2*ttl)
		if p := r.Parts[0]; lost && (p.Others < gone.used || p.Others > 100-here.used) {
			t.Errorf("%d count as used by others, of which %d were, and another %d here", p.Others, gone.used, here.used)
		}
	}
}

// An old copy of the account that somebody puts back, again and again, lets two processes use no more than the limit: the account is lost, as if it
// were deleted, as soon as one tells that heard of a later one. So it is where a process that is new tells first, also for one that came after the copy.
//
// Seen to fail with: putBack left out; the time of the account in the place of the member's.
func TestPutBack(t *testing.T) {
	for name, tt := range map[string]struct{ newcomer, later bool }{
		"told at once":               {},
		"told after a newcomer":      {newcomer: true},
		"by who came after the copy": {newcomer: true, later: true},
	} {
		t.Run(name, func(t *testing.T) {
			const limit = 100
			now := int64(1_700_000_000_000)
			begin := time.Unix(0, 0)
			a := &Account{}
			list := []*Holder{NewHolder("o", "a", 1), NewHolder("o", "b", 2)}
			used := make([]int64, len(list))
			beat := func(h *Holder, used *int64, wants int64) {
				at := begin.Add(time.Duration(now) * time.Millisecond)
				b := h.Beat(at, true, []Claim{{Name: "x", Kind: Rolling, Limit: limit, Used: *used, Want: *used + wants}})
				r := a.Beat(now, b)
				h.Answered(at, &r)
				*used += min(wants, max(0, h.Part(at, "x")-*used))
			}
			if !tt.later {
				beat(list[0], &used[0], 10)
			}
			beat(list[1], &used[1], 0)
			copied, err := a.Encode()
			if err != nil {
				t.Fatal(err)
			}
			for step := range 40 {
				now += 500
				beat(list[1], &used[1], 45)
				if step%5 == 4 {
					if a, err = Decode(copied); err != nil {
						t.Fatal(err)
					}
				}
				now += 500
				if tt.newcomer {
					beat(NewHolder("o", "new", 3), new(int64), 0)
				}
				beat(list[0], &used[0], 45)
				if sum := used[0] + used[1]; sum > limit {
					t.Fatalf("in step %d %d are used of %d", step, sum, limit)
				}
			}
			if used[0]+used[1] < limit/2 {
				t.Errorf("only %d are used of %d", used, limit)
			}
		})
	}
}
