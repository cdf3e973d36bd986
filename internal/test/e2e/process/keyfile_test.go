package process

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/tenants"
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
