package runner

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// TestPresence: parts that last rest on one sign of life until the account may have forgotten something. Then all are told of, and that
// sign is never prolonged again.
//
// Seen to fail with: a sign of an account that has yet to learn.
func TestPresence(t *testing.T) {
	began := time.Unix(1000, 0)
	r := NewLimits(LimitsConfig{})
	r.presence = r.newPresence()
	self := &owner{Limits: r.presence, held: parts.NewHolder("all", "i", 1)}
	r.known[r.presence] = self
	kept := &owner{Limits: &named{owner: "kept"}, held: parts.NewHolder("a", "i", 1)}
	other := &owner{Limits: &named{owner: "other"}, held: parts.NewHolder("b", "i", 1)}
	answered := func(second int, part int64, notes ...parts.Note) time.Time {
		now := began.Add(time.Duration(second) * time.Second)
		r.presence.Apply(now, now.Add(2*time.Second), []parts.Part{{Part: part}, {Notes: notes}})
		r.present(now)
		return now
	}
	answered(0, 0)
	if !r.lost.IsZero() {
		t.Error("what was not there yet was lost")
	}
	now := answered(1, 1)
	first := r.presence.sign
	r.lasting = map[*owner]bool{kept: true, other: true}
	answered(2, 1, parts.Note{Text: "nobody.." + hintOf("other")})
	if got := first.until; got != now.Add(3*time.Second) || r.inUse[kept] || !r.inUse[other] {
		t.Errorf("the sign is good until %v; in use are %v", got, r.inUse)
	}
	now = answered(3, 0)
	if !r.lost.Equal(now) || !r.inUse[kept] || !kept.wanted.Equal(now) {
		t.Errorf("when it is lost, that is noted as %v, and in use are %v", r.lost, r.inUse)
	}
	answered(4, 1)
	if first.until.After(now.Add(time.Second)) || r.presence.sign == first {
		t.Error("the first sign is good again")
	}
	second := r.presence.sign
	for i, epoch := range []int64{7, 8, 8} { // of the account that it knows, and of another, at first before that has learnt
		self.held.Answered(now, &parts.Reply{Seq: self.held.Beat(now, true, nil).Seq, Epoch: epoch, Learning: i == 1})
		now = answered(5+i, 1)
	}
	if !r.lost.Equal(now.Add(-time.Second)) || second.until.After(now) || r.presence.sign == second || r.presence.sign.until.Before(now) {
		t.Errorf("an account that grants before it has learnt is lost at %v, and the sign is good until %v", r.lost, second.until)
	}
}

// named are limits of an owner.
type named struct {
	still
	owner string
}

func (n *named) Owner() string { return n.owner }

// lively are limits whose parts may last.
type lively struct{ still }

func (*lively) Last([]parts.Claim) bool { return true }
func (*lively) Keep(time.Time, int)     {}
func (*lively) Stirred() bool           { return false }

// TestPresence_Nothing: what is nothing does not last: it would be found by a hint after it is forgotten.
func TestPresence_Nothing(t *testing.T) {
	now := time.Unix(1000, 0)
	r := NewLimits(LimitsConfig{})
	r.presence = r.newPresence()
	for want := range int64(2) {
		o := &owner{Limits: &lively{}, held: parts.NewHolder("a", "i", 1)}
		b := o.held.Beat(now, true, []parts.Claim{{Name: "x", Kind: parts.Rolling, Limit: 10, Want: want, Lasts: 75_000}})
		answer := &parts.Reply{Seq: b.Seq, Epoch: 1, Now: 1 + 2*parts.TTL.Milliseconds(), Parts: []parts.Part{{Part: want}}}
		if valid := o.held.Answered(now, answer); !valid || r.keepParts(o, answer, now) != (want > 0) || len(r.lasting) != int(want) {
			t.Errorf("of %d there are %d that last", want, len(r.lasting))
		}
	}
}

// TestPresence_Claims: it never has what it claims, and tells for some seconds which limits lack a part.
func TestPresence_Claims(t *testing.T) {
	now := time.Unix(1000, 0)
	p := NewLimits(LimitsConfig{}).newPresence()
	p.lacks["tenant.."] = now
	for i, want := range []string{"tenant..", "tenant..", ""} {
		c, busy := p.Claims(now.Add(time.Duration(2*i) * time.Second))
		next, _ := p.Claims(now.Add(time.Duration(2*i) * time.Second))
		if !busy || c[1].Note != want || c[1].Name != next[1].Name || c[0].Name == next[0].Name || c[0].Used > 0 {
			t.Errorf("it claims %+v and then %+v", c, next)
		}
	}
}
