package load

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the inputs of a run beside its plan.
type Options struct {
	// URL is the server's, with or without /v1.
	URL string
	// Transport sends the calls; nil is NewTransport.
	Transport http.RoundTripper
	// Progress, unless nil, is called about five times a second.
	Progress func(Progress)
}

// Progress is the progress of a run.
type Progress struct {
	Part                               float64 // of the time in which calls are due
	Sent, InFlight, OK, Refused, Other int64
}

// NewTransport is for so many concurrent calls, each on a connection of its own.
func NewTransport(inFlight int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = inFlight
	t.MaxIdleConnsPerHost = inFlight
	t.DisableCompression = true
	t.ForceAttemptHTTP2 = false
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	return t
}

// Run sends the calls of the plan, and reports. When ctx ends it sends nothing more, gives up open
// calls, and reports the figures so far. There is always a report, hence no error.
func Run(ctx context.Context, p *Plan, opt Options) *Report {
	r := &runner{
		plan: p, base: strings.TrimSuffix(strings.TrimSuffix(opt.URL, "/"), "/v1"), transport: opt.Transport,
		began: time.Now(), slots: make(chan struct{}, p.MaxInFlight), ledger: NewLedger(p),
		open: make([]openStreams, len(p.Tenants)),
	}
	if r.transport == nil {
		t := NewTransport(p.MaxInFlight)
		defer t.CloseIdleConnections()
		r.transport = t
	}
	done := make(chan struct{})
	var telling sync.WaitGroup
	if opt.Progress != nil {
		telling.Go(func() { r.reportProgress(done, opt.Progress) })
	}
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.dispatch(ctx)
	r.calls.Wait()
	close(done)
	telling.Wait()
	report := r.ledger.Report(opt.URL)
	report.Unauthorized = r.keys.all()
	if r.keys.answers == 0 {
		report.Unanswered = r.counts[Failed]
	}
	return report
}

type runner struct {
	plan      *Plan
	base      string
	transport http.RoundTripper
	began     time.Time
	slots     chan struct{} // one is taken while a call is open
	calls     sync.WaitGroup
	open      []openStreams // by tenant

	sent, inFlight atomic.Int64

	mu     sync.Mutex
	ledger *Ledger // guarded by mu
	counts [Unfinished + 1]int64
	keys   keyCheck
	stop   context.CancelFunc
}

// now is the time since the start of the run.
func (r *runner) now() time.Duration { return time.Since(r.began) }

// dispatch starts each call when it is due.
func (r *runner) dispatch(ctx context.Context) {
	schedule := NewSchedule(r.plan)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		ev, ok := schedule.Next()
		if !ok {
			ev.At = r.plan.end()
		}
		if !r.sleepUntil(ctx, timer, ev.At) {
			r.locked(func() { r.ledger.CutShort(r.now()) })
			return
		}
		switch {
		case !ok:
			return
		case ev.Storm:
			r.open[ev.Tenant].storm(r.plan.Tenants[ev.Tenant].Storm.Share)
			continue
		}
		r.locked(func() {
			r.ledger.Offer(&ev.Call)
			r.keys.sent(ev.Call.Tenant)
		})
		held, ok := r.slot(ctx, timer)
		if !ok {
			continue // this one is too late, and later ones are only counted
		}
		r.calls.Go(func() { r.call(ctx, ev.Call, held) })
	}
}

// sleepUntil returns false if ctx has ended.
func (r *runner) sleepUntil(ctx context.Context, timer *time.Timer, at time.Duration) bool {
	if wait := at - r.now(); wait > 0 {
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// slot takes the place of one open call, and reports whether it had to wait, at most until the end
// of the run.
func (r *runner) slot(ctx context.Context, timer *time.Timer) (held, ok bool) {
	select {
	case r.slots <- struct{}{}:
		return false, true
	default:
	}
	timer.Reset(max(0, r.plan.end()-r.now()))
	select {
	case r.slots <- struct{}{}:
		return true, true
	case <-timer.C:
	case <-ctx.Done():
	}
	return true, false
}

// call makes one call, with its retries. The caller has taken a slot for it.
func (r *runner) call(ctx context.Context, c Call, held bool) {
	t := &r.plan.Tenants[c.Tenant]
	body := t.body(&c)
	s := Sample{Tenant: c.Tenant, At: c.At, Held: held, Stream: c.Stream}
	for {
		r.sent.Add(1)
		r.inFlight.Add(1)
		a := r.attempt(ctx, t, &c, body, s.Attempts)
		r.inFlight.Add(-1)
		<-r.slots
		s.add(a)
		r.answered(c.Tenant, a.status)
		pause, again := r.plan.comeBack(&c, a, s.Attempts)
		if !again {
			break
		}
		if !r.waitToReturn(ctx, pause) {
			s.Outcome = Unfinished
			break
		}
	}
	r.locked(func() {
		r.ledger.Add(&s)
		r.counts[s.Outcome]++
	})
}

// answered records the status of an answer, and stops the run if all keys are wrong.
func (r *runner) answered(tenant, status int) {
	hopeless := false
	r.locked(func() {
		r.keys.answered(tenant, status)
		hopeless = r.keys.hopeless()
	})
	if hopeless {
		r.stop()
	}
}

// waitToReturn waits for the time to come back and then for a slot, unless ctx ends.
func (r *runner) waitToReturn(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	select {
	case r.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// add adds an attempt to the sample of its call.
func (s *Sample) add(a *attempt) {
	if s.Attempts == 0 {
		s.Left = a.sent
	}
	s.Attempts++
	s.Sent = a.sent
	s.Headers = a.headers
	s.First = a.first
	s.End = a.end
	s.Outcome = a.outcome
	s.TimedOut = a.timedOut
	s.Usage = a.usage
	s.Reported = a.reported
	s.Gaps = a.gaps
	switch a.outcome {
	case Refused:
		s.Refusals = append(s.Refusals, Refusal{Kind: a.kind, Took: a.end - a.sent, Hint: a.hint})
	case Failed:
		s.Failure = a.kind
		s.Example = a.example
	}
}

func (r *runner) locked(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// reportProgress reports progress until done.
func (r *runner) reportProgress(done <-chan struct{}, progress func(Progress)) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		p := Progress{
			Part: min(1, r.now().Seconds()/r.plan.end().Seconds()), Sent: r.sent.Load(), InFlight: r.inFlight.Load(),
		}
		r.locked(func() {
			p.OK = r.counts[OK]
			p.Refused = r.counts[Refused]
			p.Other = r.counts[Broken] + r.counts[Failed] + r.counts[Unfinished]
		})
		progress(p)
	}
}
