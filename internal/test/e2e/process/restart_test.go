package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

// flood sends calls until ctx ends, some short and some that are still running when
// the gateway is killed. Which are short differs by round: what is cut off is given
// back, so if always the same worker were first, nothing might ever be used.
func flood(ctx context.Context, round int, p *processtest.Process, refused *atomic.Int64) {
	testkit.AtOnce(6, func(i int) {
		for n := 0; ctx.Err() == nil; n++ {
			more := `"stream":true,"max_tokens":480`
			if (i+n+round)%5 == 0 {
				more += `,"mock":{"output_tokens":480,"token_ms":5}`
			}
			resp, err := processtest.Send(ctx, http.MethodPost, p.Data+"/v1/chat/completions", "key-of-"+string("ab"[i%2]), processtest.Chat(more))
			if err != nil {
				continue
			}
			if resp.StatusCode == http.StatusTooManyRequests {
				refused.Add(1)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}

// killed starts a gateway in a folder, and kills it soon under full load, but not before it has refused a call: then it has let in
// whatever it would. That happens again and again, until enough is shown. If that takes most of a minute, the test ends here.
func killed(t *testing.T, dir string, kills int, program func(n int) string, shown func(refused int64) bool) {
	t.Helper()
	var refused atomic.Int64
	began := time.Now()
	n := 0
	for ; n < kills || !shown(refused.Load()) && time.Since(began) < almostAMinute; n++ {
		p := processtest.Command{Program: program(n), Dir: dir, Args: []string{"serve", "-c", config}}.Serve(t)
		ctx, cancel := context.WithCancel(t.Context())
		before := refused.Load()
		go func() {
			defer cancel()
			time.Sleep(time.Duration(60+20*(n%6)) * time.Millisecond) // of real processes
			_ = processtest.Poll(func() error {
				if refused.Load() == before && !p.Ended() {
					return errors.New("nothing was refused yet")
				}
				return nil
			})
			p.Kill()
		}()
		flood(ctx, n, p, &refused)
	}
	late := time.Since(began) > almostAMinute
	if !shown(refused.Load()) {
		t.Fatalf("%d kills in %v do not show enough: llmgov has refused %d", n, time.Since(began), refused.Load())
	}
	if late {
		t.Skip("this machine is too slow to compare: the minute rolls on meanwhile, and jitter counts")
	}
}

const almostAMinute = 55 * time.Second

// thisOne is a path of llmgov for each round.
func thisOne(int) string { return "" }

// A gateway is killed again and again under full load, and started at once. The
// provider, which counts strictly, refuses nobody. A gateway that forgets gets a
// second of the rate too much each time, and here that is a whole call.
func TestKill9(t *testing.T) {
	for _, c := range []struct {
		name, pool string
		mock       mock.Config
		settings   string
		long       bool
	}{
		{"rpm", "rpm: 8", mock.Config{RPM: 8}, kept, false},
		{"rpm, forgotten", "rpm: 8", mock.Config{RPM: 8}, "", true},
		// A prompt is estimated, and each is a little different for the two.
		{"tpm", "tpm: 3900", mock.Config{TPM: 4000}, kept, true},
		{"tpm, forgotten", "tpm: 3900", mock.Config{TPM: 4000}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long {
				testkit.Long(t, "kills a gateway again and again")
			}
			t.Parallel()
			c.mock.OutputTokens = 480
			provider := processtest.NewProvider(t, c.mock)
			killed(t, newFolder(t, provider.URL, c.pool, c.settings), testkit.Rounds(12, 16), thisOne, func(refused int64) bool {
				if c.settings != kept { // this test can see something
					return provider.Stats().Refused > 0
				}
				return provider.Stats().Admitted >= 4 && refused > 0
			})
			st := provider.Stats()
			t.Logf("the provider admitted %d and refused %d", st.Admitted, st.Refused)
			if c.settings == kept && st.Refused > 0 {
				t.Errorf("the provider refused %d of %d", st.Refused, st.Admitted)
			}
		})
	}
}

// Calls that were in flight when the process was killed are counted by the next one,
// and those of that one not again by the third.
func TestExpiredByAKill(t *testing.T) {
	t.Parallel()
	dir := newFolder(t, upstream(t), "rpm: 1000", kept)
	for life, want := range []float64{0, 2, 0} {
		p := processtest.Start(t, dir, config)
		if got := processtest.Sum(p.Scrape(t), "llmgov_lease_expired_total"); got != want {
			t.Errorf("%v expired leases, want %v", got, want)
		}
		if life == 0 {
			for range 2 {
				body := processtest.Chat(`"stream":true,"mock":{"output_tokens":480,"token_ms":50}`)
				resp, err := processtest.Send(t.Context(), http.MethodPost, p.Data+"/v1/chat/completions", "key-of-a", body)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatal(resp, err)
				}
				defer resp.Body.Close()
			}
		}
		p.Kill()
	}
}

// A response belongs to its maker also after a kill -9, if there is a folder, and to
// nobody else.
func TestOwnersOutliveAKill(t *testing.T) {
	t.Parallel()
	dir := newFolder(t, upstream(t), "rpm: 1000", kept)
	p := processtest.Start(t, dir, config)
	respond := func(tenant, previous string) processtest.Answer {
		return processtest.Ask(t, http.MethodPost, p.Data+"/v1/responses", "key-of-"+tenant, `{"model":"m","input":"hi"`+previous+`}`)
	}
	// A response is committed when the next one is written, because that is in a later transaction.
	made := ""
	for range 2 {
		answer := respond("a", "")
		id := gjson.Get(answer.Body, "id").Str
		if answer.Status != http.StatusOK || id == "" {
			t.Fatal(answer)
		}
		processtest.Until(t, func() error {
			text, err := os.ReadFile(filepath.Join(dir, "state", "objects.db"))
			if err == nil && !strings.Contains(string(text), id) {
				err = fmt.Errorf("%s is not written", id)
			}
			return err
		})
		if made == "" {
			made = id
		}
	}
	p.Kill()
	p = processtest.Start(t, dir, config)
	previous := `,"previous_response_id":"` + made + `"`
	if answer := respond("a", previous); answer.Status != http.StatusOK {
		t.Errorf("its owner gets %d %s", answer.Status, answer.Body)
	}
	if answer := respond("b", previous); answer.Status != http.StatusNotFound {
		t.Errorf("another tenant gets %d %s", answer.Status, answer.Body)
	}
}

// TestUpgrade_Journal: a gateway without a store is killed under load, and started again as the other release in the same
// folder, again and again. The provider, which counts strictly, refuses nothing, because each knows what the other let in.
func TestUpgrade_Journal(t *testing.T) {
	previous := os.Getenv("LLMGOV_PREVIOUS")
	if previous == "" {
		t.Skip("needs the release before: make test-upgrade")
	}
	t.Parallel()
	provider := processtest.NewProvider(t, mock.Config{RPM: 8, OutputTokens: 480})
	program := func(n int) string { return []string{previous, ""}[n%2] }
	killed(t, newFolder(t, provider.URL, "rpm: 8", kept), 10, program, func(refused int64) bool {
		return provider.Stats().Admitted >= 4 && refused > 0
	})
	if st := provider.Stats(); st.Refused > 0 {
		t.Errorf("the provider refused %d of %d", st.Refused, st.Admitted)
	}
}
