package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/federation"
	limitparts "github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/federation/postgres"
	"github.com/llmgov/llmgov/federation/redis"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/tenants"
)

// notShared is the store of a gateway that is alone.
const notShared = "memory"

// sharing is a gateway's part in limits that it shares with others. nil is of one that is
// alone.
type sharing struct {
	*runner.Runner
	limits *runner.LimitsRunner // the tenants' own, and the pools' calls at once and budgets
	store  store
	gov    *governor.Governor
	log    *slog.Logger
	seen   func(nodes []string) // is told which gateways there are; nil where nobody wants to know

	mu   sync.Mutex
	said map[string]string   // by pool, what the log said last
	live map[string][]string // by pool, the gateways that share it
}

// newSharing prepares it. Whether the store is there is found out by the first beats.
func newSharing(cfg *tenants.Config, node string, gov *governor.Governor, m *telemetry.Metrics, seen func([]string), log *slog.Logger) (*sharing, error) {
	if cfg.Store == notShared {
		return nil, nil
	}
	store, err := openStore(cfg.Store, log)
	if err != nil {
		return nil, fmt.Errorf("llmgov: store: %w", err)
	}
	s := &sharing{store: store, gov: gov, log: log, seen: seen, said: map[string]string{}, live: map[string][]string{}}
	instance := rand.Text()
	s.Runner = runner.New(runner.Config{
		Name: node, Region: cfg.Region, Instance: instance, Store: store, Pools: s.pools,
		Told: func(ev runner.Event) {
			m.StoreAsked(ev.Op, ev.Took)
			s.tell(ev)
			s.see(ev)
		},
	})
	s.limits = runner.NewLimits(runner.LimitsConfig{
		Instance: instance, Store: store, Limits: s.limitsToTell, Calls: s.tenantCalls, More: gov.MoreLimits(),
		Told: func(op string, took time.Duration, _ error) { m.StoreAsked(op, took) },
	})
	m.WatchSharing(gov.State, s.regions)
	return s, nil
}

// store is what limits are shared by.
type store interface {
	runner.Store
	runner.LimitStore
	Close()
}

// checkStore says what is wrong with an address for openStore.
func checkStore(address string) error {
	if strings.HasPrefix(address, "redis") {
		return redis.Check(address)
	}
	return postgres.Check(address)
}

// openStore opens what an address names. It does not connect.
func openStore(address string, log *slog.Logger) (store, error) {
	if strings.HasPrefix(address, "redis") {
		return redis.Open(address, federation.DefaultRules(), func(harm string) { log.Warn(harm, "store", "redis") })
	}
	return postgres.Open(address, federation.DefaultRules())
}

// pools are those that have limits to share.
func (s *sharing) pools() []runner.Pool {
	var out []runner.Pool
	for _, p := range s.gov.SharedPools() {
		out = append(out, p)
	}
	return out
}

// limitsToTell are the tenants' own, and the pools' calls at once and budgets, that somebody has to ask the store for.
func (s *sharing) limitsToTell() []runner.Limits {
	var out []runner.Limits
	for _, l := range s.gov.SharedLimits() {
		out = append(out, l)
	}
	for _, l := range s.gov.SharedSlots() {
		out = append(out, l)
	}
	return out
}

// tenantCalls are those that wait for the store to let them go.
func (s *sharing) tenantCalls() []runner.Call {
	var out []runner.Call
	for _, c := range s.gov.SharedCalls() {
		out = append(out, tenantCall{c})
	}
	return out
}

// tenantCall is a call of the governor's, to the runner.
type tenantCall struct{ *governor.SharedCall }

// Limits are those that hold for it.
func (c tenantCall) Limits() []runner.AskedLimits {
	var out []runner.AskedLimits
	for _, l := range c.SharedCall.Limits() {
		out = append(out, l)
	}
	return out
}

// Takes are what it takes of the claims of one of them.
func (c tenantCall) Takes(l runner.AskedLimits, beat int) []limitparts.Take {
	return c.SharedCall.Takes(l.(*governor.SharedLimits), beat)
}

// Run speaks with the store until ctx ends.
func (s *sharing) Run(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return s.Runner.Run(ctx) })
	group.Go(func() error { return s.limits.Run(ctx) })
	return group.Wait()
}

// firstAnswer is how long a start waits for the store, so that the first calls find grants.
const firstAnswer = 1500 * time.Millisecond

// await waits until the store has said how much may be used, or is late.
func (s *sharing) await(ctx context.Context) {
	late := time.NewTimer(firstAnswer)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-s.First():
	case <-late.C:
	}
}

// tell logs what becomes of a pool's beats, when it becomes something else.
func (s *sharing) tell(ev runner.Event) {
	if ev.Op != runner.OpBeat {
		return
	}
	now := s.status(ev.Pool, ev.Reply.Status)
	if ev.Err != nil {
		now = "lost"
	}
	s.mu.Lock()
	before := s.said[ev.Pool]
	s.said[ev.Pool] = now
	s.mu.Unlock()
	if now == before {
		return
	}
	log := s.log.With("pool", ev.Pool)
	switch federation.Status(now) {
	case federation.Granted:
		log.Info("limits are shared out by the store", "epoch", ev.Reply.Epoch)
	case federation.Learning:
		log.Warn("the store is new or has lost data: nothing is granted until earlier usage is known. "+
			"If the pool's expect_nodes is set, that takes a second or two", "epoch", ev.Reply.Epoch,
			"seconds", (ev.Reply.Until-ev.Reply.Now)/1000)
	case federation.Fenced:
		log.Error("another process uses this node name, so this process admits no more calls. Give each process its own node name, and restart this one")
	case "lost":
		if errors.Is(ev.Err, federation.ErrDamaged) || errors.Is(ev.Err, federation.ErrEncoding) {
			log.Error("the store's account cannot be used: existing grants are used until they expire, and no more are granted", "error", ev.Err.Error())
			return
		}
		log.Warn("the store does not answer: existing grants are used until they expire", "error", ev.Err.Error())
	}
}

// see takes in which gateways a look at a pool has found.
func (s *sharing) see(ev runner.Event) {
	if ev.Op != runner.OpLook || ev.Err != nil || s.seen == nil {
		return
	}
	var live []string
	for _, n := range ev.View.Nodes {
		if n.Live {
			live = append(live, n.Name)
		}
	}
	pools := s.pools()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[ev.Pool] = live
	maps.DeleteFunc(s.live, func(pool string, _ []string) bool { // of a pool that is gone nobody looks any more
		return !slices.ContainsFunc(pools, func(p runner.Pool) bool { return p.Name() == pool })
	})
	all := slices.Concat(slices.Collect(maps.Values(s.live))...)
	slices.Sort(all)
	s.seen(slices.Compact(all))
}

// status is what an answer says of a pool. Of one that has no rolling minute nothing needs to be
// learned.
func (s *sharing) status(pool string, of federation.Status) string {
	if of == federation.Learning && !s.gov.Rated(pool) {
		of = federation.Granted
	}
	return string(of)
}

// Ready reports whether calls may be sent here. A store that is lost is no reason to send
// them elsewhere, where it is lost as well.
func (s *sharing) Ready() bool { return s == nil || !s.Fenced() }

// Up reports whether the store answers.
func (s *sharing) Up() bool { return s == nil || s.Runner.Up() }

// view is how a pool's limits are shared, as of the last look.
func (s *sharing) view(pool string) *adminapi.Sharing {
	if s == nil {
		return nil
	}
	st, ok := s.State(pool)
	if !ok {
		return nil
	}
	v := &adminapi.Sharing{
		Status: s.status(pool, st.Reply.Status), Degraded: s.gov.Degraded(pool), Epoch: st.Reply.Epoch,
		Beats: st.Beats, Failures: st.Failures, AnsweredSeconds: ago(st.Answered), LookedSeconds: ago(st.Looked), Nodes: []adminapi.SharingNode{},
	}
	if st.Err != nil {
		v.Error = st.Err.Error()
		v.FailingSince = &st.Since
	}
	if v.Status == string(federation.Learning) {
		v.LearningSeconds = float64(st.Reply.Until-st.Reply.Now) / 1000
	}
	for _, n := range st.View.Nodes {
		v.Nodes = append(v.Nodes, adminapi.SharingNode{
			Name: n.Name, Region: n.Region, Live: n.Live, SeenSeconds: float64(st.View.Now-n.Seen) / 1000,
			Tokens: n.Booked[0], Requests: n.Booked[1], WaitingTokens: n.Waiting[0], GrantTPM: n.Grant[0].Rate, GrantRPM: n.Grant[1].Rate,
		})
	}
	return v
}

// ago is how many seconds ago a time was; -1 of one that was not.
func ago(t time.Time) float64 {
	if t.IsZero() {
		return -1
	}
	return time.Since(t).Seconds()
}

// lookFor is how long what was seen of all gateways is worth showing: two looks that fail
// are one too many.
const lookFor = 15 * time.Second

// regions are the regions' parts of what was used of a pool in the last minute: of its
// tokens, if these are limited. There are none where that is not known, as while the store
// is lost.
func (s *sharing) regions(pool string) map[string]float64 {
	st, _ := s.State(pool)
	if time.Since(st.Looked) > lookFor {
		return nil
	}
	axis := 0
	if st.View.Limits[0] == 0 {
		axis = 1
	}
	parts := map[string]float64{}
	sum := int64(0)
	for _, n := range st.View.Nodes {
		parts[n.Region] += float64(n.Booked[axis])
		sum += n.Booked[axis]
	}
	for region := range parts {
		parts[region] /= float64(max(1, sum))
	}
	return parts
}
