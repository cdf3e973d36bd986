package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// receivers answer by host. They keep what they were sent.
type receivers struct {
	mu     sync.Mutex
	answer map[string]func(r *http.Request) (*http.Response, error)
	got    []sent
}

type sent struct {
	host, id, signature, at string
	body                    []byte
	after                   time.Duration
}

var began = time.Now()

func (r *receivers) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	h := req.Header
	r.got = append(r.got, sent{req.URL.Host, h.Get("webhook-id"), h.Get("webhook-signature"), h.Get("webhook-timestamp"), body, time.Since(began)})
	answer := r.answer[req.URL.Host]
	r.mu.Unlock()
	return answer(req)
}

func (r *receivers) to(host string) (list []sent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.got {
		if s.host == host {
			list = append(list, s)
		}
	}
	return list
}

func status(code int) (*http.Response, error) {
	return &http.Response{StatusCode: code, Header: http.Header{"Location": {"http://inside/"}}, Body: http.NoBody}, nil
}

func fine(*http.Request) (*http.Response, error) { return status(http.StatusNoContent) }

// hooks are options with them alone.
func hooks(list ...Hook) Options { return Options{Hooks: func() []Hook { return list }} }

// run runs a notifier of facts until f returns.
func run(t *testing.T, opt Options, r *receivers, facts func(now time.Time) []Fact, f func()) {
	t.Helper()
	opt.Facts = facts
	opt.Node = "gw"
	opt.Transport = r
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	n := New(opt)
	n.keep = 2 * time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = n.Run(ctx) }()
	f()
	cancel()
	<-done
}

func down(what string) Fact {
	return Fact{On: "upstream", Key: what, Severity: "error", Message: what + " is down <now>.", Upstream: what}
}

// TestNotifier: whatever a receiver does, others are told at once, and it is told everything in order as soon as it hears, with one id for a message.
func TestNotifier(t *testing.T) {
	for _, c := range []struct {
		name   string
		does   func(r *http.Request) (*http.Response, error)
		tries  int // in the first minute
		follow bool
	}{
		{"fails", func(*http.Request) (*http.Response, error) { return status(http.StatusInternalServerError) }, 6, false},
		{"refuses connections", func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }, 6, false},
		{"redirects", func(*http.Request) (*http.Response, error) { return status(http.StatusTemporaryRedirect) }, 6, false},
		{"hangs", func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }, 4, false},
	} {
		testkit.Virtual(t, c.name, func(t *testing.T) {
			began = time.Now()
			r := &receivers{answer: map[string]func(*http.Request) (*http.Response, error){"bad": c.does, "good": fine}}
			facts := func(now time.Time) []Fact {
				list := []Fact{down("u0")}
				if now.Sub(began) > 20*time.Second {
					list = append(list, down("u1"))
				}
				return list
			}
			run(t, hooks(Hook{URL: "http://bad/x"}, Hook{URL: "http://good/x", On: []string{"upstream"}}, Hook{URL: "http://good/other", On: []string{"budget"}}), r, facts, func() {
				time.Sleep(time.Minute)
				if n := len(r.to("bad")); n < c.tries-1 || n > c.tries+1 {
					t.Errorf("it was tried %d times in the first minute, want about %d", n, c.tries)
				}
				if good := r.to("good"); len(good) != 2 || good[0].after > 10*time.Second || good[1].after > 30*time.Second {
					t.Errorf("another hook was told %+v", good)
				}
				if len(r.to("inside")) > 0 {
					t.Error("a redirect was followed")
				}
				r.mu.Lock()
				r.answer["bad"] = fine
				r.mu.Unlock()
				time.Sleep(10 * time.Minute)
			})
			all := r.to("bad")
			first := all[0].id
			last := all[len(all)-2:]
			if last[0].id != first || last[1].id == first || !bytes.Contains(last[1].body, []byte("u1")) {
				t.Errorf("when it came back it was told %+v", last)
			}
		})
	}
}

// TestNotifier_Bounded: a receiver that never hears keeps so many messages and no more, and they are given up after a time.
func TestNotifier_Bounded(t *testing.T) {
	testkit.Virtual(t, "", func(t *testing.T) {
		began = time.Now()
		r := &receivers{answer: map[string]func(*http.Request) (*http.Response, error){"bad": func(*http.Request) (*http.Response, error) { return status(500) }}}
		facts := func(now time.Time) []Fact {
			var list []Fact
			for i := range 2 * mostQueued {
				list = append(list, down(fmt.Sprint("u", i)))
			}
			return list
		}
		run(t, hooks(Hook{URL: "http://bad"}), r, facts, func() {
			time.Sleep(150 * time.Minute)
			r.mu.Lock()
			r.answer["bad"] = fine
			r.got = nil
			r.mu.Unlock()
			time.Sleep(20 * time.Minute)
		})
		if n := len(r.to("bad")); n == 0 || n >= mostQueued {
			t.Errorf("%d messages were kept, want fewer than %d", n, mostQueued)
		}
	})
}

// TestMessage: the signature is that of Standard Webhooks, and Slack's body holds no commands.
func TestMessage(t *testing.T) {
	testkit.Virtual(t, "", func(t *testing.T) {
		r := &receivers{answer: map[string]func(*http.Request) (*http.Response, error){"json": fine, "slack": fine}}
		key := []byte("0123456789abcdef")
		told := hooks(Hook{URL: "http://json", Secret: "whsec_" + base64.StdEncoding.EncodeToString(key)}, Hook{URL: "http://slack", Slack: true})
		run(t, told, r, func(time.Time) []Fact { return []Fact{down("u0")} }, func() { time.Sleep(10 * time.Second) })
		m := r.to("json")[0]
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", m.id, m.at, m.body)
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); m.signature != want {
			t.Errorf("the signature is %q, want %q", m.signature, want)
		}
		var p payload
		testkit.OK(t, json.Unmarshal(m.body, &p))
		if p.Type != "upstream" || p.Data != (data{"firing", "error", "u0 is down <now>.", "gw", "", "", "u0"}) {
			t.Errorf("got %+v", p)
		}
		m = r.to("slack")[0]
		var text map[string]string
		testkit.OK(t, json.Unmarshal(m.body, &text))
		if text["text"] != "llmgov gw: u0 is down &lt;now&gt;." || m.signature != "" {
			t.Errorf("Slack is told %v, signed %q", text, m.signature)
		}
	})
}

// TestWatch: what is told of facts that come and go, at times in seconds.
func TestWatch(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	second := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	plain, slow, budget := down("a"), down("a"), down("a")
	slow.Lasts = 30 * time.Second
	budget.Once = second(500)
	for _, c := range []struct {
		name string
		fact Fact
		so   [][2]int // from, to
		want string
	}{
		{"once", plain, [][2]int{{0, 100}}, "0 160-"},
		{"flapping", plain, [][2]int{{0, 10}, {50, 60}, {100, 110}}, "0 170-"},
		{"twice", plain, [][2]int{{0, 10}, {200, 210}}, "0 70- 200 270-"},
		{"too short", slow, [][2]int{{0, 20}, {40, 60}}, ""},
		{"long enough", slow, [][2]int{{0, 50}}, "30 110-"},
		{"once a period", budget, [][2]int{{0, 100}, {300, 600}}, "0"},
		{"in the next period", budget, [][2]int{{0, 100}, {600, 610}}, "0 600"},
	} {
		w := newWatch()
		var got []string
		for n := 0; n < 700; n += 10 {
			var facts []Fact
			if slices.ContainsFunc(c.so, func(p [2]int) bool { return n >= p[0] && n <= p[1] }) {
				facts = []Fact{c.fact}
			}
			for _, e := range w.news(second(n), facts, func(*Fact) bool { return true }) {
				got = append(got, fmt.Sprint(n)+map[bool]string{true: "-"}[e.over])
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: told at %q, want %q", c.name, text, c.want)
		}
	}
}

// TestNotifier_Changed: a hook that does not want to know of something any more is not told that it is over.
func TestNotifier_Changed(t *testing.T) {
	testkit.Virtual(t, "", func(t *testing.T) {
		began = time.Now()
		r := &receivers{answer: map[string]func(*http.Request) (*http.Response, error){"good": fine}}
		opt := Options{Hooks: func() []Hook {
			h := Hook{URL: "http://good", On: []string{"upstream", "store"}}
			if time.Since(began) > time.Minute {
				h.On = []string{"store"}
			}
			return []Hook{h}
		}}
		facts := func(time.Time) (list []Fact) {
			if time.Since(began) < 2*time.Minute {
				list = []Fact{{On: "store", Key: "store"}}
			}
			return append(list, down("u0"))
		}
		run(t, opt, r, facts, func() { time.Sleep(10 * time.Minute) })
		if got := r.to("good"); len(got) != 3 || !bytes.Contains(got[2].body, []byte("resolved")) || !bytes.Contains(got[2].body, []byte("store")) {
			t.Errorf("it was told %d times, last of %s", len(got), got[len(got)-1].body)
		}
	})
}

// TestNotifier_IDs: the same is told under one id by the gateways of which one tells it, and by no others.
func TestNotifier_IDs(t *testing.T) {
	f := down("a")
	f.Once = time.Unix(1_800_000_000, 0)
	first := New(Options{Node: "a", Fleet: "store"}).idOf(&f)
	for _, c := range []struct {
		opt  Options
		same bool
	}{
		{Options{Node: "b", Fleet: "store"}, true},
		{Options{Node: "a", Fleet: "another"}, false},
		{Options{Node: "a"}, false},
		{Options{Node: "b"}, false},
	} {
		if id := New(c.opt).idOf(&f); (id == first) != c.same {
			t.Errorf("%s of %q has the id %s, beside %s", c.opt.Node, c.opt.Fleet, id, first)
		}
	}
	if a, b := New(Options{Node: "a"}).idOf(&f), New(Options{Node: "b"}).idOf(&f); a == b {
		t.Errorf("two gateways of their own have the id %s", a)
	}
}

// TestNotifier_First: of gateways that see the same, one tells it; while the store does not answer none does.
func TestNotifier_First(t *testing.T) {
	testkit.Virtual(t, "", func(t *testing.T) {
		f := down("a")
		f.Once = time.Now().Add(time.Hour)
		asked := 0
		opt := hooks(Hook{URL: "http://good"})
		var log bytes.Buffer
		opt.Log = slog.New(slog.NewTextHandler(&log, nil))
		opt.Facts = func(time.Time) []Fact { return []Fact{f} }
		opt.First = func(context.Context, string, time.Time, time.Time) (bool, error) {
			asked++
			if asked < 5 {
				return false, errors.New("lost")
			}
			return asked == 5, nil
		}
		gateways := []*Notifier{New(opt), New(opt)}
		told := 0
		for i := range 20 {
			gateways[i%2].look(t.Context(), time.Now())
		}
		for _, n := range gateways {
			told += len(n.lanes["http://good"].queue)
		}
		if told != 1 || asked != 6 {
			t.Errorf("it was told %d times, and asked about %d times", told, asked)
		}
		if n := strings.Count(log.String(), "error=lost"); n != 2 {
			t.Errorf("two gateways have logged %d times that the store does not answer: %s", n, &log)
		}
	})
}

// TestNotifier_Killed: if the gateway that is to tell something is killed before it was heard, another one tells it; if it is killed just after, under the
// same id; and whoever is heard is the only one.
func TestNotifier_Killed(t *testing.T) {
	for _, c := range []struct {
		name         string
		fails, kills time.Duration // until when the receiver fails, and when the first teller is killed
		heard        int
	}{
		{"never", 0, time.Hour, 1},
		{"never, of a receiver that is away", 20 * time.Minute, 2 * time.Hour, 1},
		{"before it was heard", 10 * time.Second, 7 * time.Second, 1},
		{"while the receiver is away", 20 * time.Minute, 10 * time.Minute, 1},
		{"just after it was heard", 0, 4 * time.Second, 2},
		{"later", 0, 30 * time.Second, 1},
	} {
		testkit.Virtual(t, c.name, func(t *testing.T) {
			began = time.Now()
			var mu sync.Mutex
			told := map[string]time.Time{}
			f := down("a")
			f.Once = began.Add(2 * time.Hour)
			ids := map[string]int{}
			r := &receivers{answer: map[string]func(*http.Request) (*http.Response, error){"good": func(r *http.Request) (*http.Response, error) {
				if time.Since(began) < c.fails {
					return status(http.StatusBadGateway)
				}
				mu.Lock()
				defer mu.Unlock()
				ids[r.Header.Get("webhook-id")]++
				return fine(r)
			}, "other": fine}}
			opt := hooks(Hook{URL: "http://good"}, Hook{URL: "http://other"})
			opt.First = func(_ context.Context, what string, mine, until time.Time) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				if at, held := told[what]; held && time.Now().Before(at) && !at.Equal(mine) {
					return false, nil
				}
				told[what] = until
				return true, nil
			}
			facts := func(time.Time) []Fact { return []Fact{f} }
			var group sync.WaitGroup
			for i := range 3 {
				lives := 2 * time.Hour
				if i == 0 {
					lives = c.kills
				}
				group.Go(func() {
					time.Sleep(time.Duration(i) * 100 * time.Millisecond)
					run(t, opt, r, facts, func() { time.Sleep(lives) })
				})
			}
			group.Wait()
			heard := 0
			for _, n := range ids {
				heard += n
			}
			if len(ids) != 1 || heard != c.heard {
				t.Errorf("the receiver heard %v, want one id, %d times", ids, c.heard)
			}
			if n := len(r.to("other")); n > 1 && c.heard == 1 {
				t.Errorf("another one heard %d times", n)
			}
		})
	}
}

// TestNotifier_Mute: while a store is silent, what needs no store is told at once, however much waits for it.
func TestNotifier_Mute(t *testing.T) {
	testkit.Virtual(t, "", func(t *testing.T) {
		began = time.Now()
		r := &receivers{answer: map[string]func(*http.Request) (*http.Response, error){"good": fine}}
		var facts []Fact
		for i := range 50 {
			f := down(fmt.Sprint("u", i))
			f.Once = began.Add(24 * time.Hour)
			facts = append(facts, f)
		}
		facts = append(facts, Fact{On: "store", Key: "store"})
		silent := func(ctx context.Context, _ string, _, _ time.Time) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		}
		opt := hooks(Hook{URL: "http://good"})
		opt.First = silent
		run(t, opt, r, func(time.Time) []Fact { return facts }, func() { time.Sleep(time.Minute) })
		if got := r.to("good"); len(got) != 1 || got[0].after > 15*time.Second {
			t.Errorf("it was told %+v", got)
		}
	})
}

// TestNotifier_Claims: a gateway does not ask to tell what no hook of its own wants, nor what it has no room for, so that another one may tell it, and
// tells it later if none has.
func TestNotifier_Claims(t *testing.T) {
	testkit.Virtual(t, "", func(t *testing.T) {
		var facts []Fact
		for i := range 2 * mostQueued {
			f := down(fmt.Sprint("u", i))
			f.Once = time.Now().Add(time.Hour)
			facts = append(facts, f)
		}
		opt := hooks(Hook{URL: "http://a", On: []string{"policy"}}, Hook{URL: "http://b", On: []string{"upstream"}})
		opt.Facts = func(time.Time) []Fact {
			return append(slices.Clone(facts), Fact{On: "budget", Key: "budget", Once: time.Now().Add(time.Hour)})
		}
		asked := map[string]bool{}
		opt.First = func(_ context.Context, what string, _, _ time.Time) (bool, error) {
			what, _, _ = strings.Cut(what, " ")
			asked[what] = true
			return true, nil
		}
		n := New(opt)
		for _, heard := range []int{0, 0, 10} { // messages before each look
			l := n.lanes["http://b"]
			if l != nil {
				l.queue = l.queue[heard:]
			}
			n.look(t.Context(), time.Now())
			if want := mostQueued + heard; len(asked) != want || asked["budget"] {
				t.Errorf("it has asked to tell %d facts, want %d", len(asked), want)
			}
		}
	})
}

// TestCheckAddress: what may be called.
func TestCheckAddress(t *testing.T) {
	for address, may := range map[string]bool{
		"93.184.216.34:443": true, "10.0.0.1:80": true, "127.0.0.1:80": true, "[::1]:80": true,
		"169.254.169.254:80": false, "[fe80::1%eth0]:80": false, "[::ffff:169.254.169.254]:80": false, "[fd00:ec2::254]:80": false,
		"100.100.100.200:80": false, "0.0.0.0:80": false, "224.0.0.1:80": false, "metadata:80": false,
	} {
		if err := checkAddress(address); (err == nil) != may {
			t.Errorf("%s: %v", address, err)
		}
	}
}
