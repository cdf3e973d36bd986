package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/internal/lib/rounds"
	"github.com/llmgov/llmgov/internal/lib/text"
)

const (
	// every is how often a server's metrics are read, and patience how long that may take.
	every    = time.Second
	patience = 900 * time.Millisecond
	// longestPause is the longest time in which a server that cannot be read is left alone.
	longestPause = 30 * time.Second
	// stale is the age from which on Signals say nothing of a server any more.
	stale = 4 * every
	// largest is the most bytes that are read of a server's metrics.
	largest = 2 << 20
	// atOnce is how many servers are read at the same time.
	atOnce = 64
)

// Target is a server whose metrics are read.
type Target struct {
	// Upstream is its name.
	Upstream string
	URL      string
	// Key is sent as a bearer token; empty sends none.
	Key     string
	Metrics Metrics
	// TLS is that of a client of the server; nil is Go's own.
	TLS *tls.Config
}

// is reports whether it is the same server to be asked for the same.
func (t Target) is(other Target) bool {
	t.TLS = nil
	other.TLS = nil
	return t == other
}

// State is a server as it was heard of last.
type State struct {
	Signals
	// Fresh says that the Signals are of now. If they are not, Err is why.
	Fresh bool
	Err   error
	// New says that they were read in the last round.
	New bool
}

// Options are the parts that a Watcher works with.
type Options struct {
	// Targets are the servers that the present policy names.
	Targets func() []Target
	// Heard is called after each round of readings, by the goroutine of Run.
	Heard func()
	// Client is the zero one if it is nil.
	Client *http.Client
	Log    *slog.Logger
}

// Watcher reads servers' metrics again and again.
type Watcher struct {
	Options
	mu      sync.Mutex
	servers map[string]*server // by the upstream's name
	began   time.Time          // when the last round did
}

// server is what is known of a Target.
type server struct {
	Target
	client   *http.Client
	signals  Signals
	at       time.Time // of the signals
	err      error     // of the last reading
	failures int       // since the last reading that was good
	pause    time.Time // when it is to be read again
}

// NewWatcher returns a Watcher that has heard of nothing yet. It follows no redirects, for they could lead a key elsewhere.
func NewWatcher(opt Options) *Watcher {
	client := http.Client{}
	if opt.Client != nil {
		client = *opt.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	opt.Client = &client
	return &Watcher{Options: opt, servers: map[string]*server{}}
}

// Run reads until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	rounds.Every(ctx, every, func() { w.round(ctx) })
	return nil
}

// round reads all servers that are due, and waits until each has answered or failed to.
func (w *Watcher) round(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, t := range w.due(time.Now(), w.Targets()) {
		group.Go(func() error {
			s, err := w.read(ctx, t.Target, t.client)
			if ctx.Err() == nil {
				w.keep(time.Now(), t.Target, s, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	if ctx.Err() == nil {
		w.Heard()
	}
}

// clientBy is the client of a server with that TLS.
func (w *Watcher) clientBy(config *tls.Config) *http.Client {
	if config == nil {
		return w.Client
	}
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.TLSClientConfig = config
	client := *w.Client
	client.Transport = own
	return &client
}

// due lists the targets to be read now, and forgets servers that are no target any more.
func (w *Watcher) due(now time.Time, targets []Target) (list []server) {
	present := map[string]*server{}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = now
	for _, t := range targets {
		s := w.servers[t.Upstream]
		if s == nil || !s.is(t) {
			s = &server{Target: t}
		}
		if s.client == nil || s.TLS != t.TLS {
			s.client = w.clientBy(t.TLS)
		}
		s.Target = t
		present[t.Upstream] = s
		if !now.Before(s.pause) {
			list = append(list, *s)
		}
	}
	w.servers = present
	return list
}

// read asks a server for its metrics.
func (w *Watcher) read(ctx context.Context, t Target, client *http.Client) (Signals, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL, nil)
	if err != nil {
		return Signals{}, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	if t.Key != "" {
		req.Header.Set("Authorization", "Bearer "+t.Key)
	}
	resp, err := client.Do(req)
	var failed *url.Error
	if errors.As(err, &failed) {
		return Signals{}, failed.Err // without the address, in which a secret may be
	}
	if err != nil {
		return Signals{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Signals{}, fmt.Errorf("its status is %s", text.Brief(resp.Status))
	}
	body := &io.LimitedReader{R: resp.Body, N: largest + 1}
	signals, err := Read(body, t.Metrics)
	if body.N == 0 {
		return Signals{}, fmt.Errorf("its metrics are larger than %s", text.Bytes(largest))
	}
	return signals, err
}

// keep takes in a reading, and says in the log if it is the first that failed, or the first that did not.
func (w *Watcher) keep(now time.Time, t Target, signals Signals, err error) {
	w.mu.Lock()
	s := w.servers[t.Upstream]
	before := s.failures
	s.err = err
	if err == nil {
		s.signals = signals
		s.at = now
		s.failures = 0
	} else {
		s.failures++
		s.pause = now.Add(min(every<<min(s.failures, 10), longestPause) - every/2)
	}
	w.mu.Unlock()
	switch {
	case err != nil && before == 0:
		w.Log.Warn("the metrics of an upstream's server cannot be read; its pools go by latency alone", "upstream", t.Upstream, "err", err)
	case err == nil && before > 0:
		w.Log.Info("the metrics of an upstream's server can be read again", "upstream", t.Upstream)
	}
}

// State is a server as it was heard of last; ok is false if no policy names it, or it has not been read yet.
func (w *Watcher) State(upstream string) (st State, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.servers[upstream]
	if s == nil || s.at.IsZero() && s.err == nil {
		return State{}, false
	}
	return State{
		Signals: s.signals, Fresh: !s.at.IsZero() && time.Since(s.at) < stale, Err: s.err,
		New: !s.at.Before(w.began),
	}, true
}
