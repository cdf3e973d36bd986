package runner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/governor"
)

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
