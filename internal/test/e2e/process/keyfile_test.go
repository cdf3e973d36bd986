package process

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// soon waits until a key gets a status.
func soon(t *testing.T, p *processtest.Process, key string, want int) {
	t.Helper()
	processtest.Until(t, func() error {
		if got := p.Chat(t, key).Status; got != want {
			return fmt.Errorf("the key gets %d, want %d", got, want)
		}
		return nil
	})
}

type aKey struct{ ID, Key, Hash string }

// makeKey makes a key at run time.
func makeKey(t *testing.T, p *processtest.Process, tenant string) (key aKey) {
	t.Helper()
	answer := processtest.Ask(t, http.MethodPost, p.Admin+"/api/v1/keys", "", `{"tenant":"`+tenant+`","name":"ci"}`)
	if answer.Status != http.StatusCreated {
		t.Fatalf("making a key: %d %s", answer.Status, answer.Body)
	}
	answer.Into(t, &key)
	return key
}

// A key works when it is made, and not when it is revoked: at once where that was asked, soon in another process on
// the same folder, and also after a restart.
func TestKeys_TwoProcesses(t *testing.T) {
	t.Parallel()
	files := filepath.Join(newFolder(t, upstream(t), "rpm: 600000", ""), config)
	one := processtest.Start(t, t.TempDir(), files)
	two := processtest.Start(t, t.TempDir(), files)
	made := makeKey(t, one, "a")
	if got := one.Chat(t, made.Key).Status; got != http.StatusOK {
		t.Errorf("the new key gets %d", got)
	}
	soon(t, two, made.Key, http.StatusOK)

	two.Kill()
	two = processtest.Start(t, t.TempDir(), files)
	if got := two.Chat(t, made.Key).Status; got != http.StatusOK {
		t.Errorf("after a restart the key gets %d", got)
	}

	// One of the run-time keys, and one of a policy file, each by the other process than the one asked below.
	policy := tenants.HashKey("key-of-b").String()
	for _, ref := range []string{made.ID, policy} {
		if got := processtest.Ask(t, http.MethodDelete, two.Admin+"/api/v1/keys/"+ref, "", "").Status; got != http.StatusOK {
			t.Fatalf("revoking %s: status %d", ref, got)
		}
	}
	for _, key := range []string{made.Key, "key-of-b"} {
		if got := two.Chat(t, key).Status; got != http.StatusUnauthorized {
			t.Errorf("revoked here, a key gets %d", got)
		}
	}
	soon(t, one, made.Key, http.StatusUnauthorized)
	soon(t, one, "key-of-b", http.StatusUnauthorized)
	if got := one.Chat(t, "key-of-a").Status; got != http.StatusOK {
		t.Errorf("a key that nobody touched gets %d", got)
	}
	processtest.Until(t, func() error {
		if n := strings.Count(two.Log(), `"msg":"audit"`); n != 2 {
			return fmt.Errorf("%d audit lines for two changes", n)
		}
		return nil
	})
	if strings.Contains(one.Log()+two.Log(), made.Key) {
		t.Error("the key is in a log")
	}
}

// Several processes write the same file at the same time, and nothing is lost.
func TestKeys_ManyProcesses(t *testing.T) {
	t.Parallel()
	dir := newFolder(t, upstream(t), "rpm: 600000", "")
	const each = 6
	var mu sync.Mutex
	made := map[string]aKey{}
	var wg sync.WaitGroup
	start := processtest.Command{Args: []string{"serve", "-c", filepath.Join(dir, config)}}
	processes := processtest.ServeAll(t, start, start, start)
	for _, p := range processes {
		for range 2 {
			wg.Go(func() {
				for range each {
					var k aKey
					answer := processtest.Ask(t, http.MethodPost, p.Admin+"/api/v1/keys", "", `{"tenant":"a"}`)
					if err := json.Unmarshal([]byte(answer.Body), &k); answer.Status != http.StatusCreated || err != nil {
						t.Errorf("%d %s: %v", answer.Status, answer.Body, err)
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
	got := testkit.Must(keyfile.New(filepath.Join(dir, "llmgov.keys.yaml")).List())(t)
	for _, k := range got.Keys {
		delete(made, k.Hash.String())
	}
	if len(got.Keys) != len(processes)*2*each || len(made) != 0 {
		t.Errorf("%d keys in the file, %d are lost", len(got.Keys), len(made))
	}
}

// In quickstart mode there is no file to keep keys beside.
func TestKeys_Quickstart(t *testing.T) {
	p := processtest.Quickstart(t)
	answer := processtest.Ask(t, http.MethodPost, p.Admin+"/api/v1/keys", "", `{"tenant":"pro"}`)
	if answer.Status != http.StatusConflict || !strings.Contains(answer.Body, `"no_config_file"`) {
		t.Errorf("status %d, %s", answer.Status, answer.Body)
	}
}
