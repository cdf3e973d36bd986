package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// keysFolder is a folder with a config and two tenants, whose keys are key-of-a and key-of-b, in front of a model
// server. It answers the config's name.
func keysFolder(t *testing.T) (config string) {
	t.Helper()
	dir := t.TempDir()
	return restartConfig(t, dir, startMock(t)+"/v1", "rpm: 600000", false)
}

func serveFolder(t *testing.T, config string) *process {
	t.Helper()
	return serveIn(t, t.TempDir(), config)
}

// serveIn starts a gateway in a folder, at free ports, and waits until it listens.
func serveIn(t *testing.T, dir, config string) *process {
	t.Helper()
	p, err := launch(dir, []string{"PATH=" + os.Getenv("PATH")}, "serve", "-c", config, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if err := p.listening(); err != nil {
		t.Fatal(err)
	}
	return p
}

// send is one request, its status, and its answer in v, which may be nil.
func send(t *testing.T, method, url, bearer, body string, v any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if v != nil {
		if err := json.Unmarshal(text, v); err != nil {
			t.Fatalf("%s %s: %d %s", method, url, resp.StatusCode, text)
		}
	}
	return resp.StatusCode
}

const aChat = `{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":5}`

func chatStatus(t *testing.T, p *process, key string) int {
	t.Helper()
	return send(t, http.MethodPost, p.data+"/v1/chat/completions", key, aChat, nil)
}

// soon polls until a key gets a status, and answers how long that took.
func soon(t *testing.T, p *process, key string, want int) time.Duration {
	t.Helper()
	began := time.Now()
	if err := poll(func() error {
		if got := chatStatus(t, p, key); got != want {
			return fmt.Errorf("the key gets %d, want %d", got, want)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	return time.Since(began)
}

type aKey struct{ ID, Key, Hash string }

// A key works when it is made, and not when it is revoked: at once where that was asked, soon in another process on
// the same folder, and also after a restart.
func TestKeys_TwoProcesses(t *testing.T) {
	config := keysFolder(t)
	one := serveFolder(t, config)
	two := serveFolder(t, config)
	var made aKey
	if got := send(t, http.MethodPost, one.admin+"/api/v1/keys", "", `{"tenant":"a","name":"ci"}`, &made); got != http.StatusCreated {
		t.Fatalf("status %d", got)
	}
	if got := chatStatus(t, one, made.Key); got != http.StatusOK {
		t.Errorf("the new key gets %d", got)
	}
	created := soon(t, two, made.Key, http.StatusOK)

	if err := two.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-two.done
	two = serveFolder(t, config)
	if got := chatStatus(t, two, made.Key); got != http.StatusOK {
		t.Errorf("after a restart the key gets %d", got)
	}

	// One of the run-time keys, and one of a policy file, each by the other process than the one asked below.
	policy := tenants.HashKey("key-of-b").String()
	for _, ref := range []string{made.ID, policy} {
		if got := send(t, http.MethodDelete, two.admin+"/api/v1/keys/"+ref, "", "", nil); got != http.StatusOK {
			t.Fatalf("revoking %s: status %d", ref, got)
		}
	}
	for _, key := range []string{made.Key, "key-of-b"} {
		if got := chatStatus(t, two, key); got != http.StatusUnauthorized {
			t.Errorf("revoked here, a key gets %d", got)
		}
	}
	revoked := soon(t, one, made.Key, http.StatusUnauthorized) + soon(t, one, "key-of-b", http.StatusUnauthorized)
	t.Logf("the other process took a key over after %v, and two revocations after %v", created, revoked)
	if got := chatStatus(t, one, "key-of-a"); got != http.StatusOK {
		t.Errorf("a key that nobody touched gets %d", got)
	}
	if err := poll(func() error {
		if n := strings.Count(read(two.stderr), `"msg":"audit"`); n != 2 {
			return fmt.Errorf("%d audit lines for two changes", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if strings.Contains(read(one.stderr)+read(two.stderr), made.Key) {
		t.Error("the key is in a log")
	}
}

// Several processes write the same file at the same time, and nothing is lost.
func TestKeys_ManyProcesses(t *testing.T) {
	config := keysFolder(t)
	const each = 6
	var mu sync.Mutex
	made := map[string]aKey{}
	var wg sync.WaitGroup
	processes := []*process{serveFolder(t, config), serveFolder(t, config), serveFolder(t, config)}
	for _, p := range processes {
		for range 2 {
			wg.Go(func() {
				for range each {
					var k aKey
					if got := send(t, http.MethodPost, p.admin+"/api/v1/keys", "", `{"tenant":"a"}`, &k); got != http.StatusCreated {
						t.Errorf("status %d", got)
						return
					}
					mu.Lock()
					made[k.Hash] = k
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	got, err := keyfile.New(filepath.Join(filepath.Dir(config), "llmgov.keys.yaml")).List()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range got.Keys {
		delete(made, k.Hash.String())
	}
	if len(got.Keys) != len(processes)*2*each || len(made) != 0 {
		t.Errorf("%d keys in the file, %d are lost", len(got.Keys), len(made))
	}
}

// In quickstart mode there is no file to keep keys beside.
func TestKeys_Quickstart(t *testing.T) {
	p := startQuickstart(t)
	var said struct {
		Error struct{ Code, Message string }
	}
	if got := send(t, http.MethodPost, p.admin+"/api/v1/keys", "", `{"tenant":"pro"}`, &said); got != http.StatusConflict || said.Error.Code != "no_config_file" {
		t.Errorf("status %d, %+v", got, said)
	}
}
