package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/admin"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/testkit"
)

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
		if diff := cmp.Diff([][]uint32{{1, 0}, {0, 1}}, [][]uint32{h.Refused, h.Failed}); diff != "" {
			t.Errorf("refused and failed (-want +got):\n%s", diff)
		}
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
