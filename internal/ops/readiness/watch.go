package readiness

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/internal/lib/rounds"
)

// Rule says when a gateway that is cut off from the store is not ready.
type Rule string

// The rules.
const (
	Alone  Rule = "alone"  // if another gateway has the store, or this process has never reached it
	Always Rule = "always" // whether others have it or not
	Never  Rule = "never"
)

// Config of a Watch.
type Config struct {
	Rule Rule
	// CutOff reports whether this gateway can admit nothing, because its store does not answer.
	CutOff func() bool
	// Reached reports whether the store has answered this process at all.
	Reached func() bool
	// Others returns the addresses of other gateways' admin sides, as host:port.
	Others func() []string
	// Client asks them; nil is NewClient(nil).
	Client *http.Client
}

const (
	// askEvery is how often others are asked during a loss, and askFor how long their answers are waited for.
	askEvery = time.Second
	askFor   = 500 * time.Millisecond
	// mostAsked is how many others are asked at a time.
	mostAsked = 8
)

// Watch watches one gateway.
type Watch struct {
	cfg   Config
	alone atomic.Bool // this gateway is cut off, and another is not
}

// NewClient returns a client that asks other gateways, by connections that dial makes; nil makes them without TLS. It follows no redirects.
func NewClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DialContext: dial},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// New returns a watch that finds no others before Run.
func New(c Config) *Watch {
	if c.Client == nil {
		c.Client = NewClient(nil)
	}
	return &Watch{cfg: c}
}

// errCutOff is the answer of /readyz.
var errCutOff = errors.New("this gateway is cut off from the store of its limits")

// Unready returns why no calls should be sent here; nil if they should.
func (w *Watch) Unready() error {
	if w.cfg.Rule == Never || !w.cfg.CutOff() {
		return nil
	}
	if w.cfg.Rule == Always || w.alone.Load() || !w.cfg.Reached() {
		return errCutOff
	}
	return nil
}

// Run asks others while this gateway is cut off, until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	lost := false
	rounds.Every(ctx, askEvery, func() {
		before := lost
		lost = w.cfg.CutOff()
		w.alone.Store(before && lost && w.ask(ctx))
	})
	return nil
}

// ask reports whether any other gateway says that it has the store.
func (w *Watch) ask(ctx context.Context) bool {
	list := w.cfg.Others()
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	list = list[:min(len(list), mostAsked)]
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	answers := make(chan bool, len(list))
	for _, address := range list {
		go func() { answers <- w.has(ctx, address) }()
	}
	for range list {
		if <-answers {
			return true
		}
	}
	return false
}

// has reports whether the gateway at an address says that it has the store.
func (w *Watch) has(ctx context.Context, address string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	resp, err := w.cfg.Client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.Header.Get(Header) == Answers
}
