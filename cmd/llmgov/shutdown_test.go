package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"go.uber.org/goleak"
)

func TestGraceOf(t *testing.T) {
	for _, c := range []struct {
		cause          error
		patience, want time.Duration
	}{
		{errAskedToStop, 30 * time.Second, 5 * time.Second},
		{errAskedToStop, time.Hour, 5 * time.Second},
		{errAskedToStop, 6 * time.Second, time.Second},
		{errAskedToStop, 0, 0},
		{context.Canceled, 30 * time.Second, 0},
	} {
		if got := graceOf(c.cause, c.patience); got != c.want {
			t.Errorf("%v, %s: %s, want %s", c.cause, c.patience, got, c.want)
		}
	}
}

// stops is a server that notes when it is told to close its listener. Its last call ends after a while.
type stops struct {
	note func(what string)
	ends time.Time
}

func (s stops) Close() error { return nil }

func (s stops) Shutdown(ctx context.Context) error {
	s.note("closed")
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(s.ends)):
		return nil
	}
}

// Calls are admitted until none can come any more: the listener closes before the governor drains, later by what a call may
// need from its connection to its admission.
func TestShutdown(t *testing.T) {
	for _, c := range []struct {
		name            string
		grace, patience time.Duration
		callEnds        time.Duration
		want            []string
	}{
		{"asked", 5 * time.Second, 30 * time.Second, 20 * time.Second, []string{"5s closed, admits", "6s closed", "20s end"}},
		{"asked, idle", 5 * time.Second, 30 * time.Second, 0, []string{"5s closed, admits", "5s closed", "5s end"}},
		{"short", 500 * time.Millisecond, 3 * time.Second, 9 * time.Second, []string{"500ms closed, admits", "1s closed", "3s cut", "3s closed", "4s end"}},
		{"at a terminal", 0, 30 * time.Second, time.Second, []string{"0s closed, admits", "0s closed", "1s end"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gov := testkit.Must(governor.New(governor.Config{}))(t)
				began := time.Now()
				var noted []string
				note := func(what string) {
					if !gov.Draining() {
						what += ", admits"
					}
					noted = append(noted, time.Since(began).String()+" "+what)
				}
				s := stops{note, began.Add(c.callEnds)}
				drained := func(context.Context) error {
					if !gov.Draining() {
						t.Error("calls are waited for while others are admitted")
					}
					return nil
				}
				shutdown(gov, []drain{drained}, s, c.patience, c.grace, func(error) { note("cut") }, slog.New(slog.DiscardHandler))
				note("end")
				if !slices.Equal(noted, c.want) {
					t.Errorf("%q, want %q", noted, c.want)
				}
			})
		})
	}
}

// Every goroutine of serve ends with it, those that follow the files too.
func TestServe_Ends(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir := t.TempDir()
	const tenants = "tenants: {acme: {rpm: 1, keys: []}}\n"
	processtest.Write(t, dir, map[string]string{
		"llmgov.yaml": "listen: \"127.0.0.1:0\"\nadmin: {listen: \"127.0.0.1:0\"}\n" +
			"upstreams: {u: {base_url: \"http://127.0.0.1:1/v1\"}}\npools: {p: {models: [m], rpm: 100000}}\n",
		"tenants/a.yaml": tenants,
	})
	printed, says := io.Pipe()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"serve", "-c", filepath.Join(dir, "llmgov.yaml")}, nil, says, io.Discard)
	}()
	line := make([]byte, 200)
	n := testkit.Must(printed.Read(line))(t)
	go func() { _, _ = io.Copy(io.Discard, printed) }()
	admin := regexp.MustCompile(`admin on (http://[^\s,]+)`).FindSubmatch(line[:n])
	if admin == nil {
		t.Fatalf("it says %q", line[:n])
	}
	processtest.Write(t, dir, map[string]string{"tenants/a.yaml": tenants + "# changed\n"})
	resp := testkit.Must(http.Post(string(admin[1])+"/api/v1/reload", "", nil))(t)
	resp.Body.Close()
	end()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	says.Close()
	http.DefaultClient.CloseIdleConnections()
}

// The data side answers /healthz and nothing else in place of the gateway, and tells nobody why it is not ready.
func TestWithHealth(t *testing.T) {
	var problem error
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := withHealth(next, func() error { return problem })
	ask := func(method, path string) (int, string) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, path, http.NoBody))
		body, _ := io.ReadAll(rec.Body)
		return rec.Code, string(body)
	}
	if code, _ := ask("HEAD", "/healthz"); code != http.StatusOK {
		t.Errorf("HEAD: %d", code)
	}
	for _, other := range [][2]string{{"POST", "/healthz"}, {"GET", "/healthz/x"}, {"GET", "/v1/models"}} {
		if code, _ := ask(other[0], other[1]); code != http.StatusTeapot {
			t.Errorf("%v: %d, want what the gateway answers", other, code)
		}
	}
	problem = errors.New("state_dir /secret cannot be written")
	if code, body := ask("GET", "/healthz"); code != http.StatusServiceUnavailable || body != "not ready\n" {
		t.Errorf("not ready: %d %q", code, body)
	}
}
