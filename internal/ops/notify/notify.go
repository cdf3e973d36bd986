// Package notify tells webhooks what somebody should know of: a budget that is nearly spent, a tenant that is starved, files that are invalid, a
// store or an upstream that is lost.
//
//	Facts ──► watch (what is new, what is over) ──► a bounded queue for each hook ──► POST, signed, again until it is heard
//
// Nothing here is in the way of a call: facts are read now and then, and one goroutine owns all queues. Each hook has one request under way at most, so that
// a receiver that hangs delays nobody else's news. An address is the operator's, from the config file; those of link-local services, such as the
// metadata of clouds, are not called nevertheless, and redirects are not followed.
package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Fact is something that somebody should know of, as long as it is so.
type Fact struct {
	On string // what it is about: budget, starved, policy, store or upstream
	// Key is the same for the same fact.
	Key string
	// Once, unless zero, has one gateway of all tell it, and not again before this time.
	Once time.Time
	// Lasts is for how long it has to be so before it is told.
	Lasts    time.Duration
	Severity string // error or warning
	Message  string // one or two sentences
	Tenant   string // "" if it concerns no tenant alone, and so on
	Pool     string
	Upstream string

	claim time.Time // until when this gateway is the one that tells it
}

// Hook is who wants to be told.
type Hook struct {
	URL    string
	Secret string   // signs what is sent; "" does not
	On     []string // what it wants to know of, as in Fact.On; none is all
	Slack  bool     // what is sent is as Slack expects it
}

func (h *Hook) wants(f *Fact) bool { return len(h.On) == 0 || slices.Contains(h.On, f.On) }

// host is the address without its path, which may be a secret.
func (h *Hook) host() string {
	u, err := url.Parse(h.URL)
	if err != nil {
		return "?"
	}
	return u.Host
}

// Options are the parts of a Notifier.
type Options struct {
	// Hooks are those of the policy in force, and Facts what is so now.
	Hooks func() []Hook
	Facts func(now time.Time) []Fact
	// First reports whether no other gateway has asked before, until a time, about something of which one is to tell. One that was first until mine
	// is so again.
	First func(ctx context.Context, what string, mine, until time.Time) (bool, error)
	// Node is the name of this gateway.
	Node string
	// Fleet is the name of those among which First asks, and the same at each of them; "" is Node.
	Fleet string
	Log   *slog.Logger
	// Transport is how hooks are reached; nil is Transport().
	Transport http.RoundTripper
}

const (
	// lookEvery is how long a new fact may stay unseen.
	lookEvery = 5 * time.Second
	// claimFor is for how long a gateway is the one that tells something that was not heard yet: if it ends meanwhile, another one does.
	claimFor = time.Minute
	// askFor is the time that a store has to say whether something was told.
	askFor = 2 * time.Second
	// goneFor is for how long a fact must not be seen before it is over, so that one that comes and goes is told once.
	goneFor = time.Minute
	// mostQueued is how many messages wait for a hook.
	mostQueued = 100
	// attempt is the time that a receiver has.
	attempt = 10 * time.Second
	// keepTrying is for how long a message is sent again.
	keepTrying = 24 * time.Hour
	// firstPause and longestPause are between attempts.
	firstPause, longestPause = time.Second, 5 * time.Minute
)

// Notifier tells hooks. Run runs it.
type Notifier struct {
	Options
	client *http.Client
	lanes  map[string]*lane // by URL
	ended  chan outcome
	group  sync.WaitGroup // attempts
	keep   time.Duration  // keepTrying
	mute   string         // why the store does not answer in this look; "" if it does
	said   string         // the last of these in the log
}

// lane is the queue of one hook, and what it was told.
type lane struct {
	hook   Hook
	name   string // of it, which the store may know
	watch  watch
	queue  []*message
	busy   bool
	failed int // attempts in a row
	next   time.Time
}

// outcome is how an attempt ended.
type outcome struct {
	lane *lane
	err  error
}

// New returns a Notifier.
func New(opt Options) *Notifier {
	if opt.Transport == nil {
		opt.Transport = Transport()
	}
	return &Notifier{
		Options: opt, lanes: map[string]*lane{}, ended: make(chan outcome), keep: keepTrying,
		client: &http.Client{
			Transport: opt.Transport, Timeout: attempt,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Run tells hooks until ctx ends.
func (n *Notifier) Run(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	defer n.group.Wait()
	looked := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-n.ended:
			n.heard(o, time.Now())
		case now := <-ticker.C:
			if now.Sub(looked) >= lookEvery {
				looked = now
				n.look(ctx, now)
			}
		}
		n.send(ctx, time.Now())
	}
}

// look queues what is new for those who want it. Without hooks nobody looks.
func (n *Notifier) look(ctx context.Context, now time.Time) {
	kept := map[string]*lane{}
	for _, h := range n.Hooks() {
		l := n.lanes[h.URL]
		if l == nil {
			sum := sha256.Sum256([]byte(h.URL))
			l = &lane{watch: newWatch(), name: hex.EncodeToString(sum[:8])}
		}
		l.hook = h
		kept[h.URL] = l
	}
	n.lanes = kept
	if len(kept) == 0 {
		return
	}
	n.mute = ""
	facts := n.Facts(now)
	for _, l := range n.lanes {
		n.lookFor(ctx, now, l, slices.DeleteFunc(slices.Clone(facts), func(f Fact) bool { return !l.hook.wants(&f) }))
	}
	if n.mute != "" && n.mute != n.said {
		n.Log.Warn("the store does not say whether another gateway has told webhooks of something; it will be asked again", "error", n.mute)
	}
	n.said = n.mute
}

// lookFor queues what is new among the facts that a hook wants, claims for longer what still waits to be heard there, and for good what was.
func (n *Notifier) lookFor(ctx context.Context, now time.Time, l *lane, facts []Fact) {
	fresh := 0 // facts that are to be told of this look
	for _, e := range l.watch.news(now, facts, func(f *Fact) bool {
		first := f.Once.IsZero() || n.First == nil
		if !first && len(l.queue)+fresh < mostQueued { // else somebody else may tell it, or this gateway later
			first = n.claim(ctx, now, l, f, f.claimed(now))
		}
		if first {
			fresh++
		}
		return first
	}) {
		if e.over && !l.hook.wants(&e.Fact) { // it may still be so, and the hook was changed
			continue
		}
		m := &message{id: n.idOf(&e.Fact), at: now, fact: e.Fact, over: e.over, node: n.Node}
		if len(l.queue) >= mostQueued {
			n.Log.Warn("a webhook does not keep up, and is not told", "host", l.hook.host(), "message", m.text())
		} else {
			l.queue = append(l.queue, m)
		}
	}
	for _, t := range l.watch.told {
		f := &t.fact
		if f.claim.IsZero() || f.claim.Equal(f.Once) {
			continue
		}
		until := f.Once
		if slices.ContainsFunc(l.queue, func(m *message) bool { return m.fact.Key == f.Key }) {
			until = f.claimed(now)
		}
		if until.Sub(f.claim) >= claimFor/2 {
			n.claim(ctx, now, l, f, until)
		}
	}
}

// claimed is until when a gateway claims to tell a fact that was not heard yet.
func (f *Fact) claimed(now time.Time) time.Time {
	until := now.Add(claimFor).Truncate(time.Microsecond)
	if f.Once.Before(until) {
		return f.Once
	}
	return until
}

// claim claims to tell a hook of a fact until a time. Without an answer nothing more is asked until the next look, because other facts, such as that the
// store is lost, would wait for it.
func (n *Notifier) claim(ctx context.Context, now time.Time, l *lane, f *Fact, until time.Time) bool {
	if n.mute != "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	first, err := n.First(ctx, f.Key+" "+l.name, f.claim, until)
	switch {
	case err != nil:
		n.mute = err.Error()
		return false
	case !first:
		l.watch.elsewhere(now, f)
		return false
	}
	f.claim = until
	return true
}

// send begins an attempt for each hook for which it is time.
func (n *Notifier) send(ctx context.Context, now time.Time) {
	for _, l := range n.lanes {
		if l.busy || len(l.queue) == 0 || now.Before(l.next) {
			continue
		}
		l.busy = true
		hook, m := l.hook, l.queue[0]
		n.group.Go(func() {
			err := n.post(ctx, &hook, m)
			select {
			case n.ended <- outcome{l, err}:
			case <-ctx.Done():
			}
		})
	}
}

// heard goes on after an attempt.
func (n *Notifier) heard(o outcome, now time.Time) {
	l := o.lane
	l.busy = false
	m := l.queue[0]
	if o.err == nil {
		l.queue = l.queue[1:]
		l.failed = 0
		l.next = now
		return
	}
	l.next = now.Add(min(longestPause, firstPause<<min(l.failed, 16)))
	l.failed++
	if l.failed == 1 {
		n.Log.Warn("a webhook cannot be told; it will be tried again", "host", l.hook.host(), "error", o.err.Error())
	}
	if now.Sub(m.at) > n.keep {
		l.queue = l.queue[1:]
		n.Log.Warn("a webhook was not told", "host", l.hook.host(), "message", m.text())
	}
}

// post sends a message once.
func (n *Notifier) post(ctx context.Context, h *Hook, m *message) error {
	body := m.body(h.Slack)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("its address is none")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "llmgov")
	m.sign(req.Header, h.Secret, body, time.Now())
	resp, err := n.client.Do(req)
	if err != nil {
		if at, is := errors.AsType[*url.Error](err); is {
			err = at.Err // without the address
		}
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("it answered with status %d", resp.StatusCode)
	}
	return nil
}

// Transport reaches any address but those of link-local services.
func Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	d := &net.Dialer{Timeout: attempt, Control: func(_, address string, _ syscall.RawConn) error { return checkAddress(address) }}
	t.DialContext = d.DialContext
	t.MaxIdleConnsPerHost = 1
	return t
}

// metadata are addresses of clouds' metadata that are not link-local.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16")}

// checkAddress refuses to connect to link-local services.
func checkAddress(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("notify: %s is not an address", strconv.Quote(address))
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || slices.Contains(metadata, ip) {
		return fmt.Errorf("notify: %s is of a link-local service, which is not called", ip)
	}
	return nil
}
