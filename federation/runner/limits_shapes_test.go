package runner_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/governor"
)

// over is by how much calls exceed a limit on requests, by the definition of its shape.
func (l *load) over(r shape.Rule) (worst float64) {
	slices.SortFunc(l.used, func(a, b letIn) int { return a.began.Compare(b.began) })
	worst = -float64(r.Capacity())
	level := 0.0
	for i, u := range l.used {
		n := 0.0
		switch {
		case r.Kind.Bucket():
			if i > 0 {
				level = max(0, level-float64(r.Amount)*float64(u.began.Sub(l.used[i-1].began))/float64(r.Per))
			}
			level++
			n = level
		default:
			for _, v := range l.used[i:] {
				same := v.began.Sub(u.began) < r.Per
				if r.Kind == shape.Fixed {
					same = v.began.UnixMilli()/r.Per.Milliseconds() == u.began.UnixMilli()/r.Per.Milliseconds()
				}
				if same {
					n++
				}
			}
		}
		worst = max(worst, n-float64(r.Capacity()))
	}
	return worst
}

// TestLimits_Shapes: three gateways, whether they hold parts or ask the store for each call, let no more calls go than one would by
// a limit of any shape, and hardly fewer.
func TestLimits_Shapes(t *testing.T) {
	for _, r := range []shape.Rule{
		{Kind: shape.Rolling, Amount: 20, Per: 30 * time.Second},
		{Kind: shape.Rolling, Amount: 100, Per: 3 * time.Minute},
		{Kind: shape.Fixed, Amount: 20, Per: 30 * time.Second},
		{Kind: shape.TokenBucket, Amount: 40, Per: time.Minute},
		{Kind: shape.GCRA, Amount: 150, Per: time.Minute},
		{Kind: shape.GCRA, Amount: 40, Per: time.Minute, Burst: 8}, // of so few, some are always on their way
	} {
		least := 90
		if r.Capacity() < 10 {
			least = 80
		}
		if testing.Short() && (r.Capacity() < 10 || r.Per == 3*time.Minute || r.Amount == 150) {
			continue
		}
		for _, mode := range []governor.LimitsMode{governor.LimitsLeased, governor.LimitsStrict} {
			synctest.Test(t, func(t *testing.T) {
				served := func(n int) int {
					store := &shares{away: 5 * time.Millisecond}
					tenant := governor.Tenant{Windows: []limits.Window{{Of: limits.Requests, Rule: r}}, MaxWait: 2 * time.Second}
					list := officesIn(t, n, store, tenant, mode)
					var l load
					l.flood(list, 6/n, time.Minute, 100*time.Millisecond, 300*time.Millisecond)
					if over := l.over(r); over > 0 {
						t.Errorf("%+v, mode %d: %d gateways exceed it by %.2f", r, mode, n, over)
					}
					return len(l.used)
				}
				one := served(1)
				three := served(3)
				t.Logf("%+v, mode %d: one gateway serves %d, three %d", r, mode, one, three)
				if three*100 < one*least {
					t.Errorf("%+v, mode %d: three gateways serve %d, one %d", r, mode, three, one)
				}
			})
		}
	}
}

// TestLimits_LongWindows: a gateway without calls tells of what leaves a long window sixty times in it, or once a minute, not every second.
func TestLimits_LongWindows(t *testing.T) {
	for per, most := range map[time.Duration]int64{5 * time.Minute: 60, 5 * time.Hour: 6} {
		synctest.Test(t, func(t *testing.T) {
			store := &shares{away: 5 * time.Millisecond}
			r := shape.Rule{Kind: shape.Rolling, Amount: 60, Per: per}
			list := officesIn(t, 2, store, governor.Tenant{Windows: []limits.Window{{Of: limits.Requests, Rule: r}}}, governor.LimitsLeased)
			if n := try(list[0], "a", 25); n != 25 {
				t.Fatalf("%d of 25 calls are served", n)
			}
			time.Sleep(20 * time.Second)
			before := store.asked.Load()
			time.Sleep(4 * time.Minute)
			n := store.asked.Load() - before
			t.Logf("in four minutes of a window of %v: %d beats", per, n)
			if n > most || n < 3 {
				t.Errorf("in four minutes of a window of %v it sent %d beats, want at most %d", per, n, most)
			}
		})
	}
}

// served is how many of so many calls, one after the other, a gateway lets go.
func (o *office) served(calls int) (n int) {
	for range calls {
		var l load
		l.ask(o, 0, time.Millisecond)
		n += len(l.used)
	}
	return n
}

// TestLimits_IdleBuckets: what is in a bucket drains at gateways without calls, too, so that all of it can be used at another one.
func TestLimits_IdleBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shares{away: time.Millisecond}
		rule := shape.Rule{Kind: shape.TokenBucket, Amount: 160, Per: time.Minute}
		list := offices(t, 5, store, governor.Tenant{Windows: []limits.Window{{Of: limits.Requests, Rule: rule}}, MaxWait: 2 * time.Second})
		for _, o := range list[1:] {
			if n := o.served(10); n != 10 {
				t.Errorf("%d of 10 calls go", n)
			}
		}
		time.Sleep(10 * time.Minute)
		began := time.Now()
		if n := list[0].served(160); n != 160 || time.Since(began) > 5*time.Second {
			t.Errorf("%d of 160 calls go, in %v", n, time.Since(began))
		}
	})
}
