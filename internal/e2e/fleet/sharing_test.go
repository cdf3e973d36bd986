package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

// A rolling minute can only be seen to be kept in more than a minute: -sharing 2m.
var sharingFor = flag.Duration("sharing", 8*time.Second, "how long gateways that share a limit are flooded, before one is killed")

// fleet is a number of gateways, each with the provider's limit in its configuration, and
// the provider, which counts strictly.
type fleet struct {
	t        *testing.T
	mock     string
	dir      string
	gateways []*process

	served, refused, lost atomic.Int64
	degraded              sync.Map // values of x-llmgov-degraded, and of error codes with 503
}

const sharedLimit = 600_000

// newFleet starts gateways. Those of one pool and store share its limit.
func newFleet(t *testing.T, n int, pool, axis string, limit int, store string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir()}
	f.mock = startMock(t, fmt.Sprint("--", axis, "=", limit), "--output-tokens=480")
	rules := fmt.Sprintf("{models: [\"*\"], %s: %d, max_queue: 100}", axis, limit)
	if store != "memory" {
		rules = strings.Replace(rules, "}", fmt.Sprintf(", expect_nodes: %d}", n), 1)
	}
	policy := "tenants:\n"
	for i, name := range []string{"a", "b"} {
		policy += fmt.Sprintf("  %s: {keys: [%q], weight: %d, max_wait: 2s}\n", name, tenants.HashKey("key-of-"+name).String(), 1+2*i)
	}
	if err := os.Mkdir(filepath.Join(f.dir, "tenants"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"llmgov.yaml":      "upstreams: {mock: {base_url: " + f.mock + "/v1}}\npools: {" + pool + ": " + rules + "}\nstore: \"" + store + "\"\n",
		"tenants/all.yaml": policy,
	} {
		if err := os.WriteFile(filepath.Join(f.dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var starting sync.WaitGroup
	f.gateways = make([]*process, n)
	for i := range n {
		starting.Go(func() { f.gateways[i] = f.start(i) })
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return f
}

func (f *fleet) start(i int) *process {
	return launchNode(f.t, filepath.Join(f.dir, "llmgov.yaml"), i, "--region", fmt.Sprint("r", i%2))
}

// launchNode starts a gateway, and waits until it listens; after an error it is nil. It may
// be called from any goroutine.
func launchNode(t *testing.T, config string, i int, args ...string) *process {
	p, err := launch(t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}, append([]string{
		"serve", "-c", config, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--node", fmt.Sprint("n", i),
	}, args...)...)
	if err == nil {
		t.Cleanup(p.kill)
		err = p.listening()
	}
	if err != nil {
		t.Error(err)
		return nil
	}
	return p
}

// flood asks at all gateways for so long.
func (f *fleet) flood(gateways []*process, d time.Duration) {
	f.floodUntil(gateways, d, func() bool { return false })
}

// floodUntil asks at all gateways until there is enough, or for as long as most. It returns how long that took.
func (f *fleet) floodUntil(gateways []*process, most time.Duration, enough func() bool) time.Duration {
	began := time.Now()
	ctx, cancel := context.WithTimeout(f.t.Context(), most)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range gateways {
		for i := range 12 {
			wg.Go(func() {
				for ctx.Err() == nil {
					f.call(ctx, p, "ab"[i%2:i%2+1])
				}
			})
		}
	}
	for ctx.Err() == nil && !enough() {
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	cancel()
	wg.Wait()
	return time.Since(began)
}

// serves asks at all gateways for so long, again and again, until at least so many calls are served in that time. It has to
// come to that within 20 s, a third of the minute after which any store grants again.
func (f *fleet) serves(when string, gateways []*process, d time.Duration, least int64) {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		before := f.served.Load()
		f.flood(gateways, d)
		served := f.served.Load() - before
		f.t.Logf("%s: %d calls in %v", when, served, d)
		if served >= least {
			return
		}
		if time.Now().After(end) {
			f.t.Errorf("%s: %d calls were served in %v, not %d", when, served, d, least)
			return
		}
	}
}

func (f *fleet) call(ctx context.Context, p *process, tenant string) {
	body := `{"model":"m","messages":[{"role":"user","content":"How long is a piece of string?"}],"max_tokens":480}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.data+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer key-of-"+tenant)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.lost.Add(1)
		time.Sleep(20 * time.Millisecond)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if mode := resp.Header.Get("X-Llmgov-Degraded"); mode != "" {
		f.degraded.Store(mode, true)
	}
	if resp.StatusCode == http.StatusOK {
		f.served.Add(1)
		return
	}
	f.refused.Add(1)
	var answer struct{ Error struct{ Code string } }
	_ = json.Unmarshal(text, &answer)
	if resp.StatusCode == http.StatusServiceUnavailable {
		f.degraded.Store(answer.Error.Code, true)
	}
	time.Sleep(50 * time.Millisecond)
}

func (f *fleet) saw(what string) bool {
	_, ok := f.degraded.Load(what)
	return ok
}

// snapshot is what a gateway says of the pool.
func (f *fleet) snapshot(p *process) *adminapi.Sharing {
	resp, err := http.Get(p.admin + "/api/v1/snapshot")
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	var v struct {
		Pools []struct{ Sharing *adminapi.Sharing }
	}
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		f.t.Fatal(err)
	}
	return v.Pools[0].Sharing
}

// TestSharing: three gateways with one limit use it once, as one that is alone would; also
// when one of them is killed and when the store is lost for a while. The provider, which
// counts strictly, refuses nothing.
func TestSharing(t *testing.T) {
	testkit.Long(t, "compares gateways in real time")
	t.Parallel()
	server := pgtest.New(t)
	shared := newFleet(t, 3, "p", "tpm", sharedLimit, server.URL())
	alone := newFleet(t, 1, "p", "tpm", sharedLimit, "memory")
	began := time.Now()
	var both sync.WaitGroup
	both.Go(func() { alone.flood(alone.gateways, *sharingFor) })
	shared.flood(shared.gateways, *sharingFor)
	both.Wait()
	one := alone.served.Load()
	three := shared.served.Load()
	t.Logf("in %v three gateways were served %d calls (%d refused), one %d (%d refused): %.3f; the limit is %d a minute", time.Since(began).Round(time.Second),
		three, shared.refused.Load(), one, alone.refused.Load(), float64(three)/float64(one), sharedLimit/490)
	if three > one*110/100 || three < one*88/100 {
		t.Errorf("three gateways that share were served %d calls, and one that is alone %d", three, one)
	}
	resp, err := http.Get(shared.gateways[0].admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	for _, want := range []string{
		`llmgov_region_share_ratio{pool="p",region="r0"} 0.`, `llmgov_region_share_ratio{pool="p",region="r1"} 0.`,
		`llmgov_degraded{mode="closed",pool="p"} 0`, "llmgov_store_up 1", `llmgov_store_latency_seconds_count{op="beat"}`,
	} {
		if !strings.Contains(string(metrics), "\n"+want) {
			t.Errorf("the metrics lack %s:\n%s", want, regexp.MustCompile(`(?m)^llmgov_(region|degraded|store).*`).FindAllString(string(metrics), -1))
		}
	}
	epoch := shared.snapshot(shared.gateways[0]).Epoch
	if s := shared.snapshot(shared.gateways[0]); s == nil || s.Status != "granted" || len(s.Nodes) != 3 {
		t.Errorf("the snapshot shows %+v", s)
	}

	shared.gateways[2].kill()
	before := shared.served.Load()
	shared.flood(shared.gateways[:2], 8*time.Second)
	two := shared.served.Load() - before
	t.Logf("with one of three killed: %d calls in 8 s, of %d", two, sharedLimit/490*8/60)
	if two < sharedLimit/490*8/60*70/100 {
		t.Errorf("after one was killed, only %d calls were served in 8 s", two)
	}

	server.Stop()
	shared.flood(shared.gateways[:2], 5*time.Second)
	if !shared.saw("closed") || !shared.saw("store_unavailable") {
		t.Error("without the store no call was refused for that")
	}
	for _, path := range []string{"/readyz", "/metrics"} {
		began := time.Now()
		if resp, err := http.Get(shared.gateways[0].admin + path); err != nil || resp.StatusCode != http.StatusOK || time.Since(began) > 10*time.Second {
			t.Errorf("without the store %s says %+v, %v after %v", path, resp, err, time.Since(began))
		}
	}
	server.Start()
	shared.serves("with the store back", shared.gateways[:2], 4*time.Second, sharedLimit/490*4/60*70/100)
	redistest.Eventually(t, "a beat without an error, of the account from before the restart", func() bool {
		s := shared.snapshot(shared.gateways[0])
		return s.Epoch == epoch && s.Error == ""
	})
	n2 := shared.start(2) // in the place of the one that was killed
	redistest.Eventually(t, "a grant of a gateway that was started again", func() bool {
		shared.call(t.Context(), n2, "b")
		return shared.snapshot(n2).Status == "granted"
	})
	st := statsOf(t, shared.mock)
	t.Logf("the provider admitted %d and refused %d in %v", st.Admitted, st.Refused, time.Since(began).Round(time.Second))
	if st.Refused != 0 {
		t.Errorf("the provider refused %d of %d", st.Refused, st.Admitted)
	}
}
