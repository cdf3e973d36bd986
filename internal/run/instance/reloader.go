package instance

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/tenants"
)

// Reloader follows the files, and puts their policy in force. All of it happens in
// the one goroutine of Run, so that an older policy never replaces a newer one.
//
//	tenants.Watcher ──┐
//	SIGHUP ───────────┼──► put ──► apply, metrics, log, status
//	POST …/reload ────┘
type Reloader struct {
	files   *tenants.Watcher // nil in quickstart mode
	apply   func(*tenants.Snapshot) error
	metrics *telemetry.Metrics
	log     *slog.Logger
	start   *tenants.Config // the settings at the start of the process

	asked chan chan reloadAnswer
	done  chan struct{} // closed when Run has ended

	// Of Run's goroutine alone.
	current *tenants.Snapshot
	logged  string // the problems that were logged last; empty without problems

	mu     sync.Mutex
	status adminapi.PolicyStatus // guarded by mu
}

type reloadAnswer struct {
	adminapi.Reloaded
	err error
}

// NewReloader returns a Reloader of the policy from. files may be nil, if it has none.
func NewReloader(files *tenants.Watcher, from *tenants.Snapshot, apply func(*tenants.Snapshot) error, m *telemetry.Metrics, log *slog.Logger) *Reloader {
	return &Reloader{
		files: files, apply: apply, metrics: m, log: log, start: from.Config(), current: from,
		asked: make(chan chan reloadAnswer), done: make(chan struct{}),
		status: adminapi.PolicyStatus{
			Hash: from.Hash(), LoadedAt: time.Now(), Success: true, Problems: []adminapi.Problem{}, NeedsRestart: []string{},
		},
	}
}

// Run puts changes of the files in force until ctx ends, and then waits for the end of
// the watch of the files.
func (r *Reloader) Run(ctx context.Context, hangup <-chan os.Signal) error {
	defer close(r.done)
	var events <-chan tenants.Event
	if r.files != nil {
		events = r.files.Events()
		defer func() {
			for range events { //nolint:revive // until it is closed
			}
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev, open := <-events:
			if !open {
				return nil
			}
			r.put(ev.Snapshot, ev.Err)
		case <-hangup:
			r.hungUp()
		case answer := <-r.asked:
			answer <- r.readFiles()
		}
	}
}

// hungUp handles SIGHUP.
func (r *Reloader) hungUp() {
	answer := r.readFiles()
	if errors.Is(answer.err, admin.ErrNoFiles) {
		r.log.Warn("SIGHUP: " + answer.err.Error())
		return
	}
	r.log.Info("SIGHUP: the files were read again", "good", answer.err == nil, "changed", answer.Changed)
}

// Reload implements admin.Policies.
func (r *Reloader) Reload(ctx context.Context) (adminapi.Reloaded, error) {
	answer := make(chan reloadAnswer, 1)
	select {
	case r.asked <- answer:
		a := <-answer
		return a.Reloaded, a.err
	case <-r.done:
		return adminapi.Reloaded{}, tenants.ErrWatchEnded
	case <-ctx.Done():
		return adminapi.Reloaded{}, ctx.Err()
	}
}

// Status implements admin.Policies.
func (r *Reloader) Status() adminapi.PolicyStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// readFiles reads the files now.
func (r *Reloader) readFiles() reloadAnswer {
	if r.files == nil {
		return reloadAnswer{err: admin.ErrNoFiles}
	}
	snap, err := r.files.Reload()
	if errors.Is(err, tenants.ErrWatchEnded) {
		return reloadAnswer{err: err}
	}
	return r.put(snap, err)
}

// put puts the policy of the files in force, or keeps the previous one if they are invalid.
// With an error, snap is nil or the policy in force with other keys, which become valid all the same.
func (r *Reloader) put(snap *tenants.Snapshot, err error) reloadAnswer {
	if err != nil && snap != nil && !snap.Equal(r.current) {
		if errKeys := r.apply(snap); errKeys != nil {
			err = errors.Join(err, errKeys)
		} else {
			r.current = snap
			r.log.Info("keys in force", "hash", snap.Hash())
		}
	}
	changed := err == nil && !snap.Equal(r.current)
	if changed {
		err = r.apply(snap)
	}
	if _, trial := errors.AsType[tenants.Trial](err); trial {
		return reloadAnswer{err: err} // told to whoever wants to set such a tenant, and none is set
	}
	if err != nil {
		r.refuse(err)
		return reloadAnswer{err: err}
	}
	r.metrics.PolicyRead(true)
	restart := restartFor(r.start, snap.Config())
	if changed || r.logged != "" {
		attrs := []any{"hash", snap.Hash(), "tenants", len(snap.Tenants())}
		attrs = append(attrs, differences(r.current, snap)...)
		if len(restart) > 0 {
			attrs = append(attrs, "needs_restart", restart)
		}
		r.log.Info("policy in force", attrs...)
	}
	r.current = snap
	r.logged = ""
	r.mu.Lock()
	defer r.mu.Unlock()
	if changed {
		r.status.LoadedAt = time.Now()
	}
	r.status.Hash = snap.Hash()
	r.status.Success = true
	r.status.Problems = []adminapi.Problem{}
	r.status.NeedsRestart = restart
	r.status.FailingSince = nil
	return reloadAnswer{Reloaded: adminapi.Reloaded{
		PolicyHash: snap.Hash(), Changed: changed, Tenants: len(snap.Tenants()), NeedsRestart: restart,
	}}
}

// refuse reports the problems, in the log only if they differ from those logged last.
func (r *Reloader) refuse(err error) {
	r.metrics.PolicyRead(false)
	problems := admin.ProblemsOf(err)
	if text := err.Error(); text != r.logged {
		r.logged = text
		r.log.Error("invalid files; the previous policy stays in force", "hash", r.current.Hash(), "problems", lines(text))
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status.Success {
		r.status.FailingSince = &now
	}
	r.status.Hash = r.current.Hash()
	r.status.Success = false
	r.status.Problems = problems
	r.status.LastErrorAt = &now
}
