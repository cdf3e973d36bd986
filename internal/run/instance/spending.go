package instance

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/internal/lib/rounds"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/durable"
)

const (
	// tellEvery is how long others know nothing of a call's cost.
	tellEvery = 2 * time.Second
	// tellPatience is the time that a store has to hear of it.
	tellPatience = 5 * time.Second
	// toldAtOnce and mostTold bound what a store is told in one statement, and in one turn.
	toldAtOnce = 1000
	mostTold   = 200
	// mostKept is how many rows there are at most of earlier days that nothing but memory keeps.
	mostKept = 200_000
)

// spending has the account of spend: in state_dir, in the store of all gateways, in both, or in memory alone.
type spending struct {
	book    *spend.Book
	zone    *time.Location
	journal *durable.Journal // nil without a state_dir
	store   store.Spend      // nil without a store that keeps it
	gateway string           // as the store knows it
	log     *slog.Logger

	telling sync.Mutex
}

// newSpending connects the account with what counts calls. shared may be nil.
func newSpending(zone *time.Location, journal *durable.Journal, shared *sharing, m *telemetry.Metrics, log *slog.Logger) *spending {
	s := &spending{zone: zone, journal: journal, log: log, gateway: rand.Text()}
	if journal != nil {
		s.book = journal.Spend()
		s.gateway = journal.Gateway()
	} else {
		s.book = spend.NewBook(zone)
	}
	if shared != nil {
		s.store, _ = shared.store.(store.Spend)
	}
	if s.store == nil {
		s.book.Alone()
	}
	m.SpendTo(func(tenant string, t telemetry.Taken) {
		sum := spend.Sum{spend.Calls: t.Calls, spend.Input: t.Usage.Input, spend.CachedInput: t.Usage.CachedInput, spend.Output: t.Usage.Output, spend.MicroUSD: t.MicroUSD}
		if t.Estimated {
			sum[spend.EstimatedTokens] = t.Usage.Input + t.Usage.Output
			sum[spend.EstimatedMicroUSD] = t.MicroUSD
		}
		if sum != (spend.Sum{}) {
			s.book.Add(time.Now(), spend.Key{Tenant: tenant, Model: t.Model, Upstream: t.Upstream}, sum)
		}
	})
	return s
}

// Run tells the store what changes until ctx ends, and then once more.
func (s *spending) Run(ctx context.Context) error {
	var failed rounds.Errors
	tell := func() {
		if err := s.tell(context.WithoutCancel(ctx)); failed.New(err) {
			s.log.Warn("the store cannot be told what calls cost; it will be told later", "error", err.Error())
		}
	}
	rounds.Every(ctx, tellEvery, func() {
		tell()
		s.forget(time.Now())
	})
	tell()
	return nil
}

// tell tells the store of all rows that have changed, if there is one.
func (s *spending) tell(ctx context.Context) error {
	if s.store == nil {
		return nil
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	ctx, cancel := context.WithTimeout(ctx, tellPatience)
	defer cancel()
	for range mostTold {
		rows := s.book.Untold(toldAtOnce)
		if len(rows) == 0 {
			break
		}
		if err := s.store.PutSpend(ctx, s.gateway, rows); err != nil {
			return err
		}
		s.book.Told(rows)
		if len(rows) < toldAtOnce {
			break
		}
	}
	return nil
}

// forget drops rows of earlier days, if nothing but memory keeps them, or the store does.
func (s *spending) forget(now time.Time) {
	if s.journal != nil {
		return // with its books
	}
	_, _ = s.book.Turn(func() error { return nil })
	keep := spend.KeepDays
	if s.store != nil || s.book.Len() > mostKept {
		keep = 0
	}
	s.book.Forget(spend.DayOf(now.In(s.zone).AddDate(0, 0, -keep)))
}

// rows calls each with the rows of some days, both included, and says whether these are of all gateways.
func (s *spending) rows(ctx context.Context, from, to string, each func(spend.Row)) (all bool, err error) {
	switch {
	case s.store != nil:
		if err := s.tell(ctx); err != nil {
			return false, err
		}
		ctx, cancel := context.WithTimeout(ctx, tellPatience)
		defer cancel()
		return true, s.store.SpendRows(ctx, from, to, each)
	case s.journal != nil:
		return false, s.journal.SpendRows(ctx, from, to, each)
	}
	s.book.Rows(from, to, each)
	return false, nil
}
