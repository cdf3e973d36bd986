package rounds

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Every has one round a period, none at once, and none when its context has ended.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute+time.Second)
		defer cancel()
		began := time.Now()
		var at []time.Duration
		Every(ctx, time.Minute, func() { at = append(at, time.Since(began)) })
		if len(at) != 3 || at[0] != time.Minute || at[2] != 3*time.Minute {
			t.Errorf("rounds at %v", at)
		}
	})
}

// An error is new if the round before had none, or another one.
func TestErrors_New(t *testing.T) {
	var e Errors
	for i, round := range []struct {
		err error
		new bool
	}{{nil, false}, {errors.New("a"), true}, {errors.New("a"), false}, {errors.New("b"), true}, {nil, false}, {errors.New("b"), true}} {
		if e.New(round.err) != round.new {
			t.Errorf("round %d, %v: not %t", i, round.err, round.new)
		}
	}
}
