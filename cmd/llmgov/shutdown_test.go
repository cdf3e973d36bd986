package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/llmgov/llmgov/internal/testkit/processtest"
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
	n, err := printed.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, printed) }()
	admin := regexp.MustCompile(`admin on (http://[^\s,]+)`).FindSubmatch(line[:n])
	if admin == nil {
		t.Fatalf("it says %q", line[:n])
	}
	processtest.Write(t, dir, map[string]string{"tenants/a.yaml": tenants + "# changed\n"})
	resp, err := http.Post(string(admin[1])+"/api/v1/reload", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	end()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	says.Close()
	http.DefaultClient.CloseIdleConnections()
}
