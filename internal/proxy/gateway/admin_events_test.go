package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

// The tests below were seen to fail with a reader that is told of each event in a
// channel of its own that Observe waits for, with filters that let all pass, and with
// resumption at the id itself instead of behind it.

// eventReader is the client of a stream of events, which reads when it is told to.
type eventReader struct {
	header http.Header
	mu     sync.Mutex
	text   strings.Builder
	stuck  chan struct{} // while it is open, nothing is taken
	done   chan struct{}
	stop   context.CancelFunc
	code   int
}

func (r *eventReader) Header() http.Header                { return r.header }
func (r *eventReader) WriteHeader(code int)               { r.code = code }
func (r *eventReader) Flush()                             {}
func (r *eventReader) SetWriteDeadline(_ time.Time) error { return nil }

func (r *eventReader) Write(b []byte) (int, error) {
	if r.stuck != nil {
		<-r.stuck
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// told is what came, without its times.
func (r *eventReader) told() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for block := range strings.SplitSeq(strings.TrimSuffix(r.text.String(), "\n\n"), "\n\n") {
		_, data, ok := strings.Cut(block, "data: ")
		if !ok {
			out = append(out, block)
			continue
		}
		var e struct {
			Kind, Tenant, Request, Ending string
			Lost                          *int
			Refusal                       struct{ Reason string }
			Usage                         struct{ Output int }
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			panic(err)
		}
		switch {
		case e.Lost != nil:
			out = append(out, fmt.Sprint("lost ", *e.Lost))
		case e.Kind == "":
			out = append(out, "lost ?")
		default:
			out = append(out, strings.Join(strings.Fields(fmt.Sprint(e.Kind, " ", e.Tenant, " ", e.Request, " ", e.Refusal.Reason, " ", e.Ending)), " "))
		}
	}
	return out
}

func (r *eventReader) lastID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := ""
	for line := range strings.Lines(r.text.String()) {
		if rest, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(rest)
		}
	}
	return id
}

// eventSite is a gateway that is followed.
type eventSite struct {
	*explainSite
	ring *events.Ring
}

func newEventSite(t *testing.T, size int) *eventSite {
	t.Helper()
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: "http://u/v1"}}
	cfg.Pools = []tenants.Pool{tenants.DefaultPool("p", "m"), tenants.DefaultPool("q", "n")}
	for i := range cfg.Pools {
		cfg.Pools[i].RPM = 6000
	}
	var list []tenants.Tenant
	for _, name := range []string{"a", "a/x", "b"} {
		list = append(list, tenants.Tenant{Name: name, Weight: 1, Limits: terms.Limits{RPM: 2}, Keys: []tenants.Key{{Hash: tenants.HashKey(name)}}})
	}
	snap := testkit.Must(tenants.Build(cfg, list))(t)
	s := &eventSite{&explainSite{t: t, takes: time.Second}, events.NewRing(size)}
	ctl := admissiontest.New(t, snap, func(rules *governor.Config) { rules.Observer = s.ring })
	s.gov = ctl.Governor()
	s.gateway = testkit.Must(New(Options{Admission: ctl, Log: slog.New(slog.DiscardHandler), Transport: s, Events: s.ring}))(t)
	s.data, s.admin = s.gateway, adminSide(s.gateway, admin.Options{})
	return s
}

// follow begins a stream.
func (s *eventSite) follow(query, lastID string, stuck chan struct{}) *eventReader {
	ctx, stop := context.WithCancel(s.t.Context())
	r := &eventReader{header: http.Header{}, done: make(chan struct{}), stop: stop, stuck: stuck}
	req := httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/events?"+query, nil).WithContext(ctx)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	go func() { defer close(r.done); s.admin.ServeHTTP(r, req) }()
	synctest.Wait()
	return r
}

func (s *eventSite) send(key, id string) int {
	return s.call(key, plainCall, "X-Request-Id", id).Code
}

func TestEvents_TellWhatWasDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEventSite(t, 100)
		all := s.follow("", "", nil)
		refused := s.follow("kind=refused,throttled&tenant=b", "", nil)
		teams := s.follow("tenant=a&kind=admitted", "", nil)
		other := s.follow("pool=q", "", nil)
		for i := range 3 {
			s.send("a/x", fmt.Sprint("ax", i))
			s.send("b", fmt.Sprint("b", i))
		}
		testkit.OK(t, s.gateway.Apply(s.gateway.Snapshot()))
		s.gov.Throttle("p", []governor.Cut{{Part: governor.Whole, Until: time.Now().Add(time.Minute)}})
		s.gov.Throttle("q", nil) // nothing new
		for name, tc := range map[string]struct {
			reader *eventReader
			want   []string
		}{
			"all": {all, []string{
				"retry: 2000", "admitted a/x ax0", "ended a/x ax0 settled", "admitted b b0", "ended b b0 settled",
				"admitted a/x ax1", "ended a/x ax1 settled", "admitted b b1", "ended b b1 settled",
				"refused a/x ax2 requests", "refused b b2 requests", "reloaded", "throttled",
			}},
			"refusals of b": {refused, []string{"retry: 2000", "refused b b2 requests", "throttled"}},
			"a and teams":   {teams, []string{"retry: 2000", "admitted a/x ax0", "admitted a/x ax1"}},
			"another pool":  {other, []string{"retry: 2000", "reloaded"}},
		} {
			testkit.Same(t, tc.want, tc.reader.told(), name)
			tc.reader.stop()
			<-tc.reader.done
		}
		if got := all.header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("Content-Type is %q", got)
		}
	})
}

// A stream that broke off goes on where it was, as long as the ring has that; after a
// restart it begins with what there is.
func TestEvents_Resume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEventSite(t, 4)
		first := s.follow("", "", nil)
		s.send("b", "b0")
		first.told()
		first.stop()
		<-first.done
		id := first.lastID()
		boot, _, _ := strings.Cut(id, "-")
		s.send("b", "b1")
		for name, tc := range map[string]struct {
			id   string
			want []string
		}{
			"at once":               {id, []string{"retry: 2000", "admitted b b1", "ended b b1 settled"}},
			"from another process":  {"elsewhere-17", []string{"retry: 2000", "lost ?", "admitted b b0", "ended b b0 settled", "admitted b b1", "ended b b1 settled"}},
			"from what never was":   {boot + "-99", []string{"retry: 2000", "lost ?", "admitted b b0", "ended b b0 settled", "admitted b b1", "ended b b1 settled"}},
			"with nothing to go by": {"", []string{"retry: 2000"}},
		} {
			r := s.follow("", tc.id, nil)
			testkit.Same(t, tc.want, r.told(), name)
			r.stop()
			<-r.done
		}
		for i := range 3 {
			s.send("a", fmt.Sprint("a", i)) // two are admitted, and end
		}
		r := s.follow("", id, nil)
		want := []string{"retry: 2000", "lost 3", "ended a a0 settled", "admitted a a1", "ended a a1 settled", "refused a a2 requests"}
		testkit.Same(t, want, r.told(), "too late")
		r.stop()
		<-r.done
	})
}

// A reader that takes nothing delays nobody, and is told what it has missed.
func TestEvents_ASlowReaderHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEventSite(t, 8)
		stuck := make(chan struct{})
		r := s.follow("kind=refused", "", stuck)
		for i := range 2 {
			s.send("b", fmt.Sprint("b", i))
		}
		began := time.Now()
		for i := range 100 {
			s.send("b", fmt.Sprint("no", i))
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("100 refusals took %v while somebody did not read", took)
		}
		close(stuck)
		got := r.told()
		if len(got) != 10 || got[1] != "lost 96" || got[9] != "refused b no99 requests" {
			t.Errorf("who comes to itself is told %q", got)
		}
		time.Sleep(31 * time.Second)
		got = r.told()
		if len(got) != 12 || got[11] != ": still here" {
			t.Errorf("a quiet stream says %q", got[10:])
		}
		r.stop()
		<-r.done
	})
}

func TestEvents_BadQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEventSite(t, 8)
		for query, want := range map[string]int{"tenant=c": 404, "pool=c": 404, "kind=c": 400, "kind=": 400, "c=d": 400} {
			w := httptest.NewRecorder()
			s.admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/events?"+query, nil))
			if w.Code != want || !strings.Contains(w.Body.String(), `"message"`) {
				t.Errorf("%s: %d %s", query, w.Code, w.Body)
			}
		}
	})
}

// adminSide is the admin side of a gateway, as serve wires it.
func adminSide(g *Gateway, opt admin.Options) *admin.API {
	opt.Governor = g.gov
	opt.Log = g.log
	opt.Metrics = g.metrics.Handler()
	opt.Events = g.events
	return admin.New(g, opt)
}

// dead is an upstream that does not answer.
type dead struct{}

func (dead) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func (s *eventSite) get(path string, into any) int {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
	if w.Code == http.StatusOK {
		testkit.OK(s.t, json.Unmarshal(w.Body.Bytes(), into))
	}
	return w.Code
}

// With a dead upstream, the snapshot says since when and how many calls failed, and each of them is
// among the events.
func TestOutage_IsInTheSnapshotAndTheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEventSite(t, 100)
		s.gateway.transport = dead{}
		failed := s.follow("kind=failed", "", nil)
		for i := range 6 {
			s.send([]string{"a", "a/x", "b"}[i%3], fmt.Sprint("call-", i))
		}
		if got := failed.told(); len(got) != 7 || got[1] != "failed a call-0" {
			t.Errorf("events: %q", got)
		}
		if text := failed.text.String(); !strings.Contains(text, `"failure":{"upstream":"u","status":502,"class":"`) || !strings.Contains(text, "connection refused") {
			t.Errorf("an event does not say what failed: %s", text)
		}
		failed.stop()
		<-failed.done
		var v adminapi.Snapshot
		s.get("/api/v1/snapshot", &v)
		if n := v.Pools[0].Failed; n != 6 {
			t.Errorf("%d calls failed in the last minute, want 6", n)
		}
		if len(v.Conditions) != 1 || v.Conditions[0].Kind != adminapi.UpstreamDown || v.Conditions[0].Since == nil {
			t.Fatalf("conditions: %+v", v.Conditions)
		}
		if got, want := v.Conditions[0].Message, "Upstream u of pool p is down: connection refused; next probe in 5 s."; got != want {
			t.Errorf("the condition says %q, want %q", got, want)
		}
		if down := v.Pools[0].Upstreams[0].Since; down == nil || !down.Equal(*v.Conditions[0].Since) {
			t.Errorf("down since %v, the condition says %v", down, v.Conditions[0].Since)
		}
	})
}

// The history has what each tenant received, and what failed and was refused, step by step.
func TestHistory_Answers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newEventSite(t, 100)
		done := make(chan error)
		ctx, end := context.WithCancel(t.Context())
		go func() { done <- s.admin.(*admin.API).Run(ctx) }()
		defer func() { end(); <-done }()
		time.Sleep(time.Second)
		for i := range 3 {
			s.send("b", fmt.Sprint("b", i)) // the third is over its rpm
		}
		time.Sleep(11 * time.Second)
		s.gateway.transport = dead{}
		s.send("a", "a0")
		time.Sleep(11 * time.Second)
		var h adminapi.History
		if code := s.get("/api/v1/history?pool=p", &h); code != http.StatusOK {
			t.Fatal(code)
		}
		if h.Axis != "requests" || h.StepSeconds != 10 || len(h.Times) != 2 || len(h.Used) != 2 || h.Used[0] != 2 || *h.Limit[0] != 5940 {
			t.Errorf("got %+v", h)
		}
		testkit.Same(t, [][]uint32{{1, 0}, {0, 1}}, [][]uint32{h.Refused, h.Failed}, "refused and failed")
		var one adminapi.History
		s.get("/api/v1/history?pool=p&tenant=b", &one)
		if len(one.Tenants) != 1 || one.Tenants[0].Name != "b" || one.Tenants[0].Received[0] <= 0 || one.Tenants[0].Refused[0] != 1 {
			t.Errorf("of b: %+v", one.Tenants)
		}
		for query, want := range map[string]int{"": 404, "pool=c": 404, "pool=p&tenant=c": 404, "pool=p&step=1": 400} {
			if code := s.get("/api/v1/history?"+query, nil); code != want {
				t.Errorf("%q: %d, want %d", query, code, want)
			}
		}
	})
}

// Calls that wait for an upstream that has answered none for 10 s are shown until it answers or they go.
func TestConditions_SilentUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQuickSite(t, "pools: {p: {models: [m], rpm: 6000}}", "  a: {keys: [KEY(a)]}")
		s.takes = 12 * time.Second
		shown := func() string {
			text := ""
			for _, c := range s.gateway.Conditions(time.Now()) {
				text += fmt.Sprintf("%s %s/%s: %s", c.Kind, c.Pool, c.Upstream, c.Message)
			}
			return text
		}
		for range 3 {
			s.calls.Go(func() { s.call("a", `{"model":"m","messages":[]}`) })
		}
		for _, step := range []struct {
			after time.Duration
			want  string
		}{
			{9 * time.Second, ""},
			{2 * time.Second, "upstream_silent p/u: Upstream u of pool p: no answer for 11 s, 3 calls wait for it."},
			{2 * time.Second, ""},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			if got := shown(); got != step.want {
				t.Errorf("%q, want %q", got, step.want)
			}
		}
		s.calls.Wait()
	})
}
