package instance

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	govsharing "github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/testkit"
)

// lossy is a store that can be lost.
type lossy struct {
	runner.Store
	lost atomic.Bool
}

var errLost = errors.New("lost")

func (l *lossy) Beat(ctx context.Context, pool string, b *federation.Beat) (federation.Reply, error) {
	if l.lost.Load() {
		return federation.Reply{}, errLost
	}
	return l.Store.Beat(ctx, pool, b)
}

func (l *lossy) Look(ctx context.Context, pool string) (federation.View, error) {
	if l.lost.Load() {
		return federation.View{}, errLost
	}
	return l.Store.Look(ctx, pool)
}

// TestSharing_Regions: where the limit is used is told as long as it is known, and not of a
// past that nobody has seen the end of.
func TestSharing_Regions(t *testing.T) {
	testkit.Long(t, "compares gateways in real time")
	synctest.Test(t, func(t *testing.T) {
		gov := testkit.Must(governor.New(governor.Config{
			Shared: true, Pools: []governor.Pool{{Name: "p", TPM: 1000, Burst: time.Second, MaxQueue: 10}},
			Tenants: []governor.Tenant{{Name: "a", Weight: escrow.WeightOne}},
		}))(t)
		store := &lossy{Store: memory.New(memory.Config{Fresh: true})}
		s := &sharing{gov: gov, log: slog.New(slog.DiscardHandler)}
		s.Runner = runner.New(runner.Config{Name: "n", Region: "here", Instance: "i", Store: store, Pools: govsharing.New(gov).Pools})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Runner.Run(ctx) }()
		for _, x := range []struct {
			lost  bool
			after time.Duration
			known bool
		}{{false, 10 * time.Second, true}, {true, 5 * time.Second, true}, {true, 15 * time.Second, false}, {true, time.Hour, false}, {false, 10 * time.Second, true}} {
			store.lost.Store(x.lost)
			time.Sleep(x.after)
			if _, known := s.regions("p")["here"]; known != x.known {
				t.Errorf("the store is lost %t, %v later regions are %v", x.lost, x.after, s.regions("p"))
			}
		}
		stop()
		<-done
	})
}
