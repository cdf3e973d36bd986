package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

// TestFirstStart: the first call after the start of a gateway with a new store is served, slots included, if the gateway expects no other or
// the pool was declared new. Else the caller, the console's API and who looks at the start are told why not.
func TestFirstStart(t *testing.T) {
	for name, store := range map[string]func() string{
		"redis":    func() string { return redistest.New(t).URL() },
		"postgres": func() string { return pgtest.New(t).URL() },
	} {
		url := store()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(file, text string) string {
				path := filepath.Join(dir, file)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			write("tenants.yaml", "tenants: {acme: {keys: ["+tenants.HashKey("key").String()+"]}}\n")
			head := fmt.Sprintf("store: %q\npolicies: [tenants.yaml]\nupstreams: {mock: {base_url: %s/v1}}\npools:\n", url, startMock(t))
			declared := head + "  declared: {models: [declared], tpm: 600000, concurrency: 8}\n"
			some := write("some.yaml", declared)
			all := write("all.yaml", declared+`  expected: {models: [expected], tpm: 600000, concurrency: 8, expect_nodes: 1}
  adaptive: {models: [adaptive], concurrency: {max: 8, adaptive: gradient}, expect_nodes: 1}
  waits: {models: [waits], tpm: 600000}
`)
			command := func(want int) string {
				t.Helper()
				var out bytes.Buffer
				if code := run(t.Context(), []string{"store", "new", "-c", some}, nil, &out, &out); code != want {
					t.Errorf("store new exits with %d, and says: %s", code, &out)
				}
				return out.String()
			}
			command(exitOK)
			p := launchNode(t, all, 0)
			if p == nil {
				t.FailNow()
			}
			chat := func(model string) (int, string) {
				body := `{"model": "` + model + `", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}`
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer key")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				text, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return resp.StatusCode, string(text)
			}
			for _, model := range []string{"declared", "expected", "adaptive"} {
				if status, text := chat(model); status != http.StatusOK {
					t.Errorf("the first call of pool %s: %d %s", model, status, text)
				}
			}
			const why = "The store is new: it has no data of llmgov. Pool waits grants nothing for a minute"
			if status, text := chat("waits"); status != http.StatusServiceUnavailable || !strings.Contains(text, why) {
				t.Errorf("a call that has to wait: %d %s", status, text)
			}
			if said, err := os.ReadFile(p.stdout); err != nil || !strings.Contains(string(said), why) || strings.Contains(string(said), "Pool declared") {
				t.Errorf("the start says %s, %v", said, err)
			}
			if said := processtest.Get(t, p.admin+"/readyz"); !strings.Contains(said, why) {
				t.Errorf("readyz says %s", said)
			}
			if said := processtest.Get(t, p.admin+"/api/v1/snapshot"); !strings.Contains(said, why) {
				t.Errorf("the snapshot says %s", said)
			}
			if said := command(exitBad); !strings.Contains(said, "the store is in use: gateway n0 told of pool declared") {
				t.Errorf("beside a gateway the command says %s", said)
			}
		})
	}
}
