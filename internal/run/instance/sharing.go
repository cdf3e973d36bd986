package instance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/runner"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/governor"
	govsharing "github.com/llmgov/llmgov/governor/sharing"
	"github.com/llmgov/llmgov/internal/lib/sampled"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/durable"
	"github.com/llmgov/llmgov/tenants"
)

// notShared is the store of a single gateway.
const notShared = "memory"

// sharing connects a gateway with the store through which it shares limits. It is nil in a
// single gateway.
type sharing struct {
	*runner.Runner
	limits *runner.LimitsRunner // of tenants, and of pools' slots and budgets
	store  store.Store
	node   string
	gov    *governor.Governor
	side   *govsharing.Sharing // translates between the governor and the runners
	log    *slog.Logger
	seen   func(nodes []string) // receives the gateways that share limits; may be nil
	notes  *durable.Notes       // what a later process has to know of the store; nil without a state_dir
	// journals are the usage of pools by earlier processes, by pool; nil without a state_dir.
	journals governor.PoolBookings
	// address is where other gateways can reach the admin side of this one; empty if nowhere.
	address string
	// leaves reports whether this gateway is about to stop.
	leaves func() bool

	mu   sync.Mutex
	said map[string]string   // by pool, the status that was logged last
	live map[string][]string // by pool, the gateways that share it
	// unreadable are the accounts of limits that the store cannot read, by owner.
	unreadable map[string]adminapi.Unreadable
	warn       sampled.Gate // of these; there may be one for each tenant
	absent     absentees
	// answered says that the store has answered this process, and anew is that budgets began anew then.
	answered bool
	anew     adminapi.Condition
}

// newSharing prepares it, without connecting to the store: the first beats do.
func newSharing(cfg *tenants.Config, node string, gov *governor.Governor, m *telemetry.Metrics, seen func([]string), log *slog.Logger) (*sharing, error) {
	if cfg.Store == notShared {
		return nil, nil
	}
	opened, err := store.Open(cfg.Store, func(kind, harm string) { log.Warn(harm, "store", kind) })
	if err != nil {
		return nil, fmt.Errorf("llmgov: store: %w", err)
	}
	s := &sharing{
		store: opened, node: node, gov: gov, side: govsharing.New(gov), log: log, seen: seen, said: map[string]string{}, live: map[string][]string{},
		unreadable: map[string]adminapi.Unreadable{}, absent: absentees{last: map[string]heard{}}, warn: sampled.Gate{Every: time.Minute, Most: 20},
	}
	instance := rand.Text()
	if cfg.StateDir != "" {
		s.notes = durable.OpenNotes(cfg.StateDir, log)
	}
	s.Runner = runner.New(runner.Config{
		Memory: s.memory, Keep: s.keep,
		Name: node, Region: cfg.Region, Instance: instance, Store: opened, Pools: s.side.Pools,
		Address: s.announced,
		Told: func(ev runner.Event) {
			m.StoreAsked(ev.Op, ev.Took)
			s.logBeat(ev)
			s.recordNodes(ev)
		},
	})
	s.limits = runner.NewLimits(runner.LimitsConfig{
		Instance: instance, Store: opened, Limits: s.side.Limits, Calls: s.side.Calls, More: s.side.More(), Sign: s.side.Sign,
		Former: s.former, Keep: s.keepEpoch, Unreadable: s.noteUnreadable,
		Told: func(op string, took time.Duration, _ error) { m.StoreAsked(op, took) },
	})
	m.WatchSharing(gov.State, s.regions, func() int { return len(s.unreadables()) })
	return s, nil
}

// announced is what others are told of the admin side of this gateway.
func (s *sharing) announced() string {
	if s.leaves() {
		return leaving
	}
	return s.address
}

// Run speaks with the store until ctx ends.
func (s *sharing) Run(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return s.Runner.Run(ctx) })
	group.Go(func() error { return s.limits.Run(ctx) })
	if s.notes != nil {
		group.Go(func() error { return s.notes.Run(ctx) })
	}
	return group.Wait()
}

// memory is what an earlier process knew of a pool's account, or nil.
func (s *sharing) memory(pool string) *federation.Memory {
	if s.notes == nil {
		return nil
	}
	var m federation.Memory
	if json.Unmarshal(s.notes.Get("pool "+pool), &m) != nil {
		return nil
	}
	m.Journal = s.journals[pool]
	return &m
}

// former is the epoch of an owner's account that was heard of last, 0 if it is unknown.
func (s *sharing) former(owner string) int64 {
	if s.notes == nil {
		return 0
	}
	epoch, err := strconv.ParseInt(string(s.notes.Get("limits "+owner)), 10, 64)
	if err != nil {
		return 0
	}
	return epoch
}

// keepEpoch keeps it for a later process; 0 is that there is none.
func (s *sharing) keepEpoch(owner string, epoch int64) {
	switch {
	case s.notes == nil:
	case epoch == 0:
		s.notes.Set("limits "+owner, nil)
	default:
		s.notes.Set("limits "+owner, strconv.AppendInt(nil, epoch, 10))
	}
}

// keep notes what a later process has to know of a pool's account.
func (s *sharing) keep(pool string, m federation.Memory) {
	if s.notes == nil {
		return
	}
	text, err := json.Marshal(m)
	if err == nil {
		s.notes.Set("pool "+pool, text)
	}
}

// firstAnswer is the time that a start waits for the store, so that the first calls find grants.
const firstAnswer = 1500 * time.Millisecond

// await waits until the store has granted something, or is late.
func (s *sharing) await(ctx context.Context) {
	late := time.NewTimer(firstAnswer)
	defer late.Stop()
	select {
	case <-ctx.Done():
	case <-s.First():
	case <-late.C:
	}
}

// logBeat logs the outcome of a pool's beat if it differs from the previous one.
func (s *sharing) logBeat(ev runner.Event) {
	if ev.Op != runner.OpBeat {
		return
	}
	now := s.status(ev.Pool, ev.Reply.Status)
	if ev.Err != nil {
		now = "lost"
	} else {
		s.noteFirst(time.Now(), &ev.Reply, s.expect(ev.Pool))
	}
	s.mu.Lock()
	before := s.said[ev.Pool]
	s.said[ev.Pool] = now
	if before == "lost" && ev.Err == nil {
		s.absent.back = time.Now()
	}
	s.mu.Unlock()
	if now == before {
		return
	}
	log := s.log.With("pool", ev.Pool)
	switch federation.Status(now) {
	case federation.Granted:
		log.Info("limits are shared out by the store", "epoch", ev.Reply.Epoch)
	case federation.Learning:
		why := governor.NewStore{Lost: ev.Reply.Lost, Expect: s.expect(ev.Pool)}
		log.Warn(why.Explain(ev.Pool), "epoch", ev.Reply.Epoch, "at_most_seconds", (ev.Reply.Until-ev.Reply.Now)/1000)
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

// noteUnreadable notes that the store cannot read an account of limits, or can again, and logs what to delete.
func (s *sharing) noteUnreadable(owner string, err error) {
	now := time.Now()
	s.mu.Lock()
	if err != nil {
		s.unreadable[owner] = adminapi.Unreadable{Owner: owner, Since: now, Error: err.Error()}
	} else {
		delete(s.unreadable, owner)
	}
	s.mu.Unlock()
	unlogged, ok := s.warn.Pass(now)
	switch {
	case !ok:
	case err == nil:
		s.log.Info("the store's account of these limits is read again, or not needed", "limits", owner, "unlogged", unlogged)
	default:
		s.log.Error("the store's account of these limits cannot be used: nothing is granted of them, unless on_store_loss is open", "limits", owner, "error", err.Error(), "unlogged", unlogged)
	}
}

// unreadables are the accounts of limits that the store cannot read, by owner.
func (s *sharing) unreadables() []adminapi.Unreadable {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.unreadable), func(a, b adminapi.Unreadable) int { return strings.Compare(a.Owner, b.Owner) })
}

// recordNodes records the gateways that a look at a pool has found.
func (s *sharing) recordNodes(ev runner.Event) {
	if ev.Op != runner.OpLook || ev.Err != nil {
		return
	}
	s.mu.Lock()
	s.absent.look(time.Now(), s.node, ev.View)
	s.mu.Unlock()
	if s.seen == nil {
		return
	}
	var live []string
	for _, n := range ev.View.Nodes {
		if n.Live {
			live = append(live, n.Name)
		}
	}
	pools := s.side.Pools()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[ev.Pool] = live
	maps.DeleteFunc(s.live, func(pool string, _ []string) bool { // because removed pools have no looks
		return !slices.ContainsFunc(pools, func(p runner.Pool) bool { return p.Name() == pool })
	})
	all := slices.Concat(slices.Collect(maps.Values(s.live))...)
	slices.Sort(all)
	s.seen(slices.Compact(all))
}

// status is the status of a pool in an answer. A pool without a rolling minute is never learning, because
// there is no earlier usage to learn.
func (s *sharing) status(pool string, of federation.Status) string {
	if of == federation.Learning && !s.gov.Rated(pool) {
		of = federation.Granted
	}
	return string(of)
}

// Ready reports whether calls may be sent here. Whether they may when the store is lost depends on the other
// gateways; see Instance.CutOff.
func (s *sharing) Ready() bool { return s == nil || !s.Fenced() }

// reached reports whether the store has answered a beat of any pool.
func (s *sharing) reached() bool {
	return s == nil || slices.ContainsFunc(s.side.Pools(), func(p runner.Pool) bool {
		st, _ := s.State(p.Name())
		return !st.Answered.IsZero()
	})
}

// peers are the other gateways, as of the last looks.
func (s *sharing) peers() (list []adminapi.Peer) {
	if s == nil {
		return nil
	}
	for _, p := range s.side.Pools() {
		st, _ := s.State(p.Name())
		for _, n := range st.View.Nodes {
			p := adminapi.Peer{Name: n.Name, Address: n.Address}
			if n.Live && n.Name != s.node && n.Address != leaving && !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	return list
}

// Up reports whether the store answers.
func (s *sharing) Up() bool { return s == nil || s.Runner.Up() }

// view is the sharing of a pool's limits, as of the last look.
func (s *sharing) view(pool string) *adminapi.Sharing {
	if s == nil {
		return nil
	}
	st, ok := s.State(pool)
	if !ok {
		return nil
	}
	v := &adminapi.Sharing{
		Status: s.status(pool, st.Reply.Status), Degraded: s.gov.Degraded(pool), Epoch: st.Reply.Epoch, Format: s.Format(),
		Beats: st.Beats, Failures: st.Failures, AnsweredSeconds: ago(st.Answered), LookedSeconds: ago(st.Looked), Nodes: []adminapi.SharingNode{},
	}
	if st.Err != nil {
		v.Error = st.Err.Error()
		v.FailingSince = &st.Since
	}
	if v.Status == string(federation.Learning) {
		why := governor.NewStore{Lost: st.Reply.Lost, Expect: s.expect(pool)}
		v.LearningSeconds = max(float64(st.Reply.Until-st.Reply.Now)/1000-v.AnsweredSeconds, 0)
		v.Learning = why.Explain(pool)
	}
	for _, n := range st.View.Nodes {
		v.Nodes = append(v.Nodes, adminapi.SharingNode{
			Name: n.Name, Region: n.Region, Live: n.Live, SeenSeconds: float64(st.View.Now-n.Seen) / 1000,
			Tokens: n.Booked[0], Requests: n.Booked[1], WaitingTokens: n.Waiting[0], GrantTPM: n.Grant[0].Rate, GrantRPM: n.Grant[1].Rate,
		})
	}
	apart, _ := s.State(governor.Accounts(pool)[1])
	for _, n := range apart.View.Nodes {
		if i := slices.IndexFunc(v.Nodes, func(o adminapi.SharingNode) bool { return o.Name == n.Name }); i >= 0 {
			of := &v.Nodes[i]
			of.InputTokens = n.Booked[0]
			of.OutputTokens = n.Booked[1]
			of.GrantITPM = n.Grant[0].Rate
			of.GrantOTPM = n.Grant[1].Rate
		}
	}
	return v
}

// expect is how many gateways a pool expects; 0 is unknown.
func (s *sharing) expect(pool string) int {
	for _, p := range s.side.Pools() {
		if p.Name() == pool {
			return p.Expect()
		}
	}
	return 0
}

// ago is the number of seconds since t, or -1 if t is zero.
func ago(t time.Time) float64 {
	if t.IsZero() {
		return -1
	}
	return time.Since(t).Seconds()
}

// lookFor is the time for which a look at all gateways is shown: one look may fail, not two.
const lookFor = 15 * time.Second

// counted is the state of the first of a pool's accounts that has a limit, and of which axis that is; else the last one's.
func (s *sharing) counted(pool string) (st runner.State, axis int) {
	for _, account := range governor.Accounts(pool) {
		st, _ = s.State(account)
		for k, limit := range st.View.Limits {
			if limit > 0 {
				return st, k
			}
		}
	}
	return st, 0
}

// regions are the regions' parts of a pool's usage in the last minute: of its tokens, if these are
// limited. They are nil if unknown, such as while the store is lost.
func (s *sharing) regions(pool string) map[string]float64 {
	st, axis := s.counted(pool)
	if time.Since(st.Looked) > lookFor {
		return nil
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
