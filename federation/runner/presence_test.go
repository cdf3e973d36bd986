package runner

import (
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// TestPresence: parts that last rest on one sign of life until the account may have forgotten something. Then all are told of, and that
// sign is never prolonged again.
func TestPresence(t *testing.T) {
	began := time.Unix(1000, 0)
	r := NewLimits(LimitsConfig{})
	r.presence = newPresence()
	kept := &owner{Limits: newPresence(), held: parts.NewHolder("a", "i", 1)}
	other := &owner{Limits: newPresence(), held: parts.NewHolder("b", "i", 1)}
	answered := func(second int, part int64, notes ...parts.Note) time.Time {
		now := began.Add(time.Duration(second) * time.Second)
		r.presence.Apply(now, now.Add(2*time.Second), []parts.Part{{Part: part}, {Notes: notes}})
		r.present(now)
		return now
	}
	answered(0, 0)
	if r.presence.lost || !r.lost.IsZero() {
		t.Error("what was not there yet was lost")
	}
	now := answered(1, 1)
	first := r.presence.sign
	r.lasting = map[string]*owner{"kept....": kept, "other...": other}
	answered(2, 1, parts.Note{Text: "nobody..other..."})
	if got := first.get(); got != now.Add(3*time.Second) || r.inUse[kept] || !r.inUse[other] {
		t.Errorf("the sign is good until %v; in use are %v", got, r.inUse)
	}
	now = answered(3, 0)
	if !r.lost.Equal(now) || !r.inUse[kept] || !kept.wanted.Equal(now) {
		t.Errorf("when it is lost, that is noted as %v, and in use are %v", r.lost, r.inUse)
	}
	answered(4, 1)
	if first.get().After(now.Add(time.Second)) || r.presence.sign == first {
		t.Error("the first sign is good again")
	}
}

// TestPresence_Claims: it never has what it claims, and tells for some seconds which limits lack a part.
func TestPresence_Claims(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newPresence()
	p.lacks["tenant.."] = now
	for i, want := range []string{"tenant..", "tenant..", ""} {
		c, busy := p.Claims(now.Add(time.Duration(2*i) * time.Second))
		next, _ := p.Claims(now.Add(time.Duration(2*i) * time.Second))
		if !busy || c[1].Note != want || c[1].Name != next[1].Name || c[0].Name == next[0].Name || c[0].Used > 0 {
			t.Errorf("it claims %+v and then %+v", c, next)
		}
	}
}
