package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/memory"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	govsharing "github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/lib/sampled"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/test/testkit"
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
			Tenants: []governor.Tenant{{Name: "a", Weight: 1}},
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

// TestSharing_Unreadable: each account of limits that the store cannot read is in the log with what to delete, and known until it is
// read again. However many there are and however often they come, the log does not fill up.
func TestSharing_Unreadable(t *testing.T) {
	var log bytes.Buffer
	s := &sharing{
		log: slog.New(slog.NewTextHandler(&log, nil)), unreadable: map[string]adminapi.Unreadable{},
		warn: sampled.Gate{Every: time.Minute, Most: 20},
	}
	foreign := fmt.Errorf("redis: %w; delete it (DEL 'llmgov:parts:{acme}')", federation.ErrEncoding)
	s.noteUnreadable("acme", foreign)
	s.noteUnreadable("acme in p", federation.ErrDamaged)
	if list := s.unreadables(); len(list) != 2 || list[0].Owner != "acme" || list[0].Error != foreign.Error() || list[1].Owner != "acme in p" {
		t.Errorf("%+v", list)
	}
	s.noteUnreadable("acme", nil)
	if list := s.unreadables(); len(list) != 1 || list[0].Owner != "acme in p" {
		t.Errorf("%+v", list)
	}
	for range 50 {
		s.noteUnreadable("x", foreign)
		s.noteUnreadable("x", nil)
	}
	if lines := strings.Count(log.String(), "\n"); !strings.Contains(log.String(), "DEL 'llmgov:parts:{acme}'") || lines != 20 {
		t.Errorf("%d lines:\n%s", lines, log.String())
	}
}

// A gateway is missed that is not heard of any more: not one that said that it stops, was replaced, or has been away for long, and
// nobody while this gateway itself does not see the store.
func TestMissing(t *testing.T) {
	began := time.Now()
	// node was heard of at a time, in seconds since the beginning.
	node := func(name, address string, at int64) federation.NodeView {
		return federation.NodeView{Name: name, Address: address, Seen: 1_000_000 + at*1000}
	}
	for name, c := range map[string]struct {
		nodes []federation.NodeView // as of the first look, a second after the beginning
		later []federation.NodeView // as of the second look
		at    int64                 // of the second look, in seconds; 0 is none
		want  string
		back  int64 // when the store was back after a loss, in seconds; 0 is long ago
	}{
		"all beat":             {[]federation.NodeView{node("one", "a:1", 1), node("two", "b:1", 1)}, []federation.NodeView{node("one", "a:1", 60), node("two", "b:1", 59)}, 60, "", 0},
		"killed":               {[]federation.NodeView{node("two", "b:1", 1)}, []federation.NodeView{node("two", "b:1", 1)}, 5, "two", 0},
		"killed a moment ago":  {[]federation.NodeView{node("two", "b:1", 1)}, []federation.NodeView{node("two", "b:1", 1)}, 4, "", 0},
		"forgotten by now":     {[]federation.NodeView{node("two", "b:1", 1)}, nil, 300, "two", 0},
		"without an address":   {[]federation.NodeView{node("two", "", 1), node("three", "", 1)}, []federation.NodeView{node("three", "", 30)}, 30, "two", 0},
		"long ago":             {[]federation.NodeView{node("two", "b:1", 1)}, nil, 602, "", 0},
		"stopped":              {[]federation.NodeView{node("two", "leaving", 1)}, nil, 60, "", 0},
		"another at its place": {[]federation.NodeView{node("two-77", "b:1", 1)}, []federation.NodeView{node("two-88", "b:1", 59)}, 60, "", 0},
		"back":                 {[]federation.NodeView{node("two", "b:1", 1)}, []federation.NodeView{node("two", "b:1", 59)}, 60, "", 0},
		"this one":             {[]federation.NodeView{node("one", "a:1", 1)}, []federation.NodeView{node("one", "a:1", 1)}, 60, "", 0},
		"nothing is seen":      {[]federation.NodeView{node("two", "b:1", 1)}, nil, 0, "", 0},
		"the store was away":   {[]federation.NodeView{node("two", "b:1", 1)}, []federation.NodeView{node("two", "b:1", 1)}, 12, "", 9},
		"and is back for long": {[]federation.NodeView{node("two", "b:1", 1)}, []federation.NodeView{node("two", "b:1", 1)}, 13, "two", 9},
	} {
		a := absentees{last: map[string]heard{}}
		if c.back > 0 {
			a.back = began.Add(time.Duration(c.back) * time.Second)
		}
		a.look(began.Add(time.Second), "one", federation.View{Now: 1_001_000, Nodes: c.nodes})
		if c.at > 0 {
			a.look(began.Add(time.Duration(c.at)*time.Second), "one", federation.View{Now: 1_000_000 + c.at*1000, Nodes: c.later})
		}
		var got []string
		for _, m := range a.missing() {
			got = append(got, strings.Fields(m.Message)[1])
			if !m.Since.Equal(began.Add(time.Second)) {
				t.Errorf("%s: since %v", name, m.Since.Sub(began))
			}
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: %q are missed, want %q", name, got, c.want)
		}
	}
}
