package sharing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/governor"
)

// TestLasting_Sign: parts that last are used for as long as there is a sign of life, and no longer than they last. A sign that comes
// again is of no use for parts that have expired, nor after another answer.
func TestLasting_Sign(t *testing.T) {
	for name, tt := range map[string]struct {
		sign   time.Duration // until when it is good
		after  time.Duration // a call comes
		answer bool          // there is another answer just before the parts last
		goes   bool
	}{
		"as usual":         {sign: 3 * time.Second, after: 2 * time.Second, goes: true},
		"lasting":          {sign: 30 * time.Second, after: 20 * time.Second, goes: true},
		"without a sign":   {sign: 10 * time.Second, after: 10 * time.Second},
		"longer":           {sign: time.Hour, after: time.Minute},
		"as long as it is": {sign: time.Hour, after: time.Minute - 1, goes: true},
		"answered":         {sign: time.Hour, after: 5 * time.Second, answer: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := inCommonAsked(t)
				s := answer(t, g, nil, 50, 0)
				synctest.Wait()
				began := time.Now()
				New(g).Sign(1, began.Add(tt.sign))
				s.Keep(began.Add(time.Minute), 1)
				if tt.answer {
					answer(t, g, s, 50, 0)
				}
				time.Sleep(tt.after)
				before := time.Now()
				l, rej := g.Acquire(context.Background(), governor.Request{Tenant: "a", Pool: "p", Input: 1})
				if goes := rej == nil && l.Waited == 0; goes != tt.goes {
					t.Errorf("a call goes: %v (%v after %v)", goes, rej, time.Since(before))
				}
			})
		})
	}
}

// TestLasting_Claims: parts last where calls take little of the limits.
func TestLasting_Claims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			change func(c *parts.Claim, last *int64)
			lasts  bool
			want   int64
		}{
			{func(*parts.Claim, *int64) {}, true, 25},
			{func(_ *parts.Claim, last *int64) { *last = 13 }, false, 0},
			{func(c *parts.Claim, _ *int64) { c.Need = 6 }, false, 0},
			{func(c *parts.Claim, _ *int64) { c.Spare = 1 }, false, 0},
			{func(c *parts.Claim, _ *int64) { c.Used = 30 }, true, 50},
			{func(c *parts.Claim, _ *int64) { c.Used = 31 }, false, 0},
			{func(c *parts.Claim, last *int64) { c.Want, *last = 31, 1 }, false, 0},
			{func(c *parts.Claim, last *int64) { c.Want, *last = 30, 1 }, true, 30},
			{func(c *parts.Claim, last *int64) { c.Kind, c.Used, c.Want, *last = parts.Slots, 50, 50, 1 }, false, 0},
			{func(c *parts.Claim, _ *int64) { c.Kind = parts.Period }, false, 0},
			{func(c *parts.Claim, last *int64) { c.Kind, c.Used, c.Want, *last = parts.Period, 89, 90, 0 }, true, 90},
			{func(c *parts.Claim, last *int64) { c.Kind, c.Used, c.Want, *last = parts.Period, 89, 91, 0 }, false, 0},
			{func(c *parts.Claim, last *int64) { c.Kind, c.Want, *last = parts.Period, 6, 0 }, true, 6},
		} {
			l := &Limits{own: answer(t, inCommonAsked(t), nil, 50, 0).own, claimed: []limits.Demand{{Axis: limits.Tokens, Last: 10}}}
			c := []parts.Claim{{Name: "x", Kind: parts.Rolling, Limit: 100, Used: 5, Want: 7}}
			tt.change(&c[0], &l.claimed[0].Last)
			if lasts := l.Last(c); lasts != tt.lasts || lasts && c[0].Want != tt.want {
				t.Errorf("%+v: %v", c[0], lasts)
			}
		}
	})
}

// inCommonAsked is inCommon after a call.
func inCommonAsked(t *testing.T) *governor.Governor {
	g := inCommon(t)
	go call(g)
	synctest.Wait()
	return g
}
