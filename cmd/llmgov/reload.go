package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/admin"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/telemetry"
	"github.com/llmgov/llmgov/tenants"
)

// reloader follows the files, and puts what they say in force. All of it happens in
// the one goroutine of Run, so that an older policy never replaces a newer one.
//
//	tenants.Watcher ──┐
//	SIGHUP ───────────┼──► take ──► apply, metrics, log, status
//	POST …/reload ────┘
type reloader struct {
	files   *tenants.Watcher // nil in quickstart mode
	apply   func(*tenants.Snapshot) error
	metrics *telemetry.Metrics
	log     *slog.Logger
	start   *tenants.Config // what the process was started with

	asked chan chan reloadAnswer
	done  chan struct{} // closed when Run has ended

	// Of Run's goroutine alone.
	current *tenants.Snapshot
	logged  string // the problems that were logged last; empty when there are none

	mu     sync.Mutex
	status adminapi.PolicyStatus // guarded by mu
}

type reloadAnswer struct {
	adminapi.Reloaded
	err error
}

func newReloader(files *tenants.Watcher, from *tenants.Snapshot, apply func(*tenants.Snapshot) error, m *telemetry.Metrics, log *slog.Logger) *reloader {
	return &reloader{
		files: files, apply: apply, metrics: m, log: log, start: from.Config(), current: from,
		asked: make(chan chan reloadAnswer), done: make(chan struct{}),
		status: adminapi.PolicyStatus{
			Hash: from.Hash(), LoadedAt: time.Now(), Success: true, Problems: []adminapi.Problem{}, NeedsRestart: []string{},
		},
	}
}

// Run takes over what happens to the files until ctx ends, which is also to end the
// watch of the files. It waits for that.
func (r *reloader) Run(ctx context.Context, hangup <-chan os.Signal) error {
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
			r.take(ev.Snapshot, ev.Err)
		case <-hangup:
			r.hungUp()
		case answer := <-r.asked:
			answer <- r.look()
		}
	}
}

// hungUp is what SIGHUP does.
func (r *reloader) hungUp() {
	answer := r.look()
	if errors.Is(answer.err, admin.ErrNoFiles) {
		r.log.Warn("SIGHUP: " + answer.err.Error())
		return
	}
	r.log.Info("SIGHUP: the files were read again", "good", answer.err == nil, "changed", answer.Changed)
}

// Reload implements admin.Policies.
func (r *reloader) Reload(ctx context.Context) (adminapi.Reloaded, error) {
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
func (r *reloader) Status() adminapi.PolicyStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// look reads the files now.
func (r *reloader) look() reloadAnswer {
	if r.files == nil {
		return reloadAnswer{err: admin.ErrNoFiles}
	}
	snap, err := r.files.Reload()
	if errors.Is(err, tenants.ErrWatchEnded) {
		return reloadAnswer{err: err}
	}
	return r.take(snap, err)
}

// take puts what the files say in force, or keeps what is. With an error, snap is nil
// or the policy in force with other keys, which count all the same.
func (r *reloader) take(snap *tenants.Snapshot, err error) reloadAnswer {
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

// refuse says what is wrong, in the log only when that has not been said yet.
func (r *reloader) refuse(err error) {
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
