// Package operations tests the gateway as its operator sees it: reloads, usage, traces, crashes and
// the admin API.
package operations

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/e2e/harness"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
	"github.com/llmgov/llmgov/tenants"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The scale of TestReloadsUnderLoad; make reloads is the large one.
var (
	reloads  = flag.Int("reloads", 40, "how often the policy changes under load")
	callRate = flag.Int("call-rate", 150, "plain calls a second meanwhile")
)

// bill adds up what the log says was charged, by tenant and pool, as "acme/p": its
// lines outlive the series of both.
type bill struct {
	slog.Handler
	mu     sync.Mutex
	tokens map[string]int64
	calls  map[string]int64
}

func newBill() *bill {
	return &bill{Handler: slog.DiscardHandler, tokens: map[string]int64{}, calls: map[string]int64{}}
}

func (b *bill) Enabled(context.Context, slog.Level) bool { return true }

func (b *bill) Handle(_ context.Context, r slog.Record) error {
	tenant := ""
	pool := ""
	tokens := int64(0)
	ended := false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "tenant":
			tenant = a.Value.String()
		case "pool":
			pool = a.Value.String()
		case "input", "output":
			tokens += a.Value.Int64()
		case "held": // it was admitted
			ended = true
		}
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if ended {
		b.calls[tenant+"/"+pool]++
		b.tokens[tenant+"/"+pool] += tokens
	}
	return nil
}

// of adds up what begins so: a tenant's in all pools, or everybody's.
func (b *bill) of(prefix string) (calls, tokens int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for who := range b.calls {
		if strings.HasPrefix(who, prefix) {
			calls += b.calls[who]
			tokens += b.tokens[who]
		}
	}
	return calls, tokens
}

// staying are the tenants of every policy; others come and go.
var staying = []string{"ann", "bob", "cem", "dan"}

const comers = 8

// policyNo is a policy under load: limits, weights, models and tenants differ from
// the one before, and every other time a pool has another name.
func policyNo(t *testing.T, w harness.World, n int) *tenants.Snapshot {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	cfg := w.Config()
	p := tenants.DefaultPool("p", "m")
	q := tenants.DefaultPool(fmt.Sprint("q", n%2), "x")
	p.RPM = 1_000_000 + rng.Int64N(1_000_000)
	p.TPM = 0
	p.Concurrency = 5000 + rng.Int64N(5000)
	if n%3 > 0 {
		p.TPM = 1e9 + rng.Int64N(1e9)
	}
	q.Concurrency = 5000
	cfg.Pools = []tenants.Pool{p, q}
	cfg.DefaultPool = "p"
	var list []tenants.Tenant
	for i, name := range staying {
		one := harness.Tenant(name, 1+rng.Int64N(9))
		one.RPM = 500_000 + rng.Int64N(500_000)
		one.Concurrency = rng.Int64N(2) * 5000
		one.MaxWait = time.Minute
		if (n+i)%2 == 0 {
			one.Models = []string{"x", "m"}
		}
		list = append(list, one)
	}
	for i := range comers {
		if rng.IntN(2) == 0 {
			list = append(list, harness.Tenant(fmt.Sprint("comer", i), 1+rng.Int64N(9)))
		}
	}
	return testkit.Must(tenants.Build(cfg, list))(t)
}

// load is what calls have come to.
type load struct {
	*harness.Stack
	sent, served, unknown, failed, streams atomic.Int64
}

// one sends a call and wants it answered in full. Who comes and goes may also not be
// known.
func (l *load) one(tenant, body string, slow bool) {
	l.sent.Add(1)
	var from io.Reader = strings.NewReader(body)
	if slow { // in two halves, between which the policy changes
		from = io.MultiReader(strings.NewReader(body[:20]), &pause{150 * time.Millisecond}, strings.NewReader(body[20:]))
	}
	req, err := http.NewRequestWithContext(l.T.Context(), http.MethodPost, "http://gateway/v1/chat/completions", from)
	if err != nil {
		l.T.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+tenant)
	resp, err := l.Client.Do(req)
	if err != nil {
		l.failed.Add(1)
		l.T.Error(err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	whole := strings.HasSuffix(string(text), "data: [DONE]\n\n") || !strings.Contains(body, `"stream":true`)
	switch {
	case err == nil && resp.StatusCode == http.StatusOK && whole:
		l.served.Add(1)
	case resp.StatusCode == http.StatusUnauthorized && strings.HasPrefix(tenant, "comer"):
		l.unknown.Add(1)
	default:
		l.failed.Add(1)
		l.T.Errorf("%s: status %d, %v: %.300s", tenant, resp.StatusCode, err, text)
	}
}

// pause is a reader that has nothing, after a while.
type pause struct{ d time.Duration }

func (p *pause) Read([]byte) (int, error) { time.Sleep(p.d); return 0, io.EOF }

func anyOf(rng *rand.Rand) string {
	if rng.IntN(3) == 0 {
		return fmt.Sprint("comer", rng.IntN(comers))
	}
	return staying[rng.IntN(len(staying))]
}

// run sends calls until ctx ends, and waits for the last.
func (l *load) run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for ctx.Err() == nil {
				l.streams.Add(1)
				l.one(anyOf(rng), harness.Chat(true, 200, `,"mock":{"output_tokens":100,"token_ms":20}`), false)
				if ctx.Err() == nil {
					time.Sleep(10 * time.Millisecond) // where it was a 401
				}
			}
		})
	}
	tick := time.NewTicker(time.Second / time.Duration(*callRate))
	defer tick.Stop()
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 0; ctx.Err() == nil; n++ {
		<-tick.C
		tenant := anyOf(rng)
		body := harness.Chat(false, 50, `,"mock":{"output_tokens":5,"token_ms":1}`)
		if n%2 == 0 {
			body = strings.Replace(body, `"model":"m"`, `"model":"x"`, 1)
		}
		wg.Go(func() { l.one(tenant, body, n%10 < 2) })
	}
	wg.Wait()
}

// countersOf are what may only grow: of the tenants that stay, in the pool that stays.
func countersOf(s *harness.Stack) map[string]int64 {
	out := map[string]int64{}
	for _, name := range staying {
		out["requests of "+name] = s.Sum("llmgov_requests_total", map[string]string{"tenant": name, "pool": "p"})
		out["tokens of "+name] = s.Sum("llmgov_tokens_total", map[string]string{"tenant": name, "pool": "p"})
	}
	return out
}

// usedBy is what counts against the limits that every policy has.
func usedBy(s *harness.Stack) map[string]int64 {
	out := map[string]int64{}
	for _, ts := range s.Governor.State().Tenants {
		for _, limit := range ts.Limits {
			if limit.Axis == "requests" && !strings.HasPrefix(ts.Config.Name, "comer") {
				out["used of "+ts.Config.Name] = limit.Used
			}
		}
	}
	return out
}

func checkGrown(t *testing.T, n int, before, after map[string]int64) {
	t.Helper()
	for what, was := range before {
		if after[what] < was {
			t.Errorf("policy %d: %s were %d and are %d", n, what, was, after[what])
		}
	}
}

// The policy changes again and again under load, and nobody notices: no call of who
// is there fails, no counter goes back, what is used stays used, nothing is left
// held, and what was charged is what the model server produced.
func TestReloadsUnderLoad(t *testing.T) {
	testkit.Long(t, "compares gateways in real time")
	if testing.Short() {
		t.Skip("takes seconds")
	}
	bill := newBill()
	w := harness.World{Mock: mock.Config{FirstToken: 5 * time.Millisecond}, Pool: tenants.DefaultPool("p", "*"), Log: bill}
	w.Pool.RPM = 1_000_000
	for _, name := range staying {
		one := harness.Tenant(name, 1)
		one.RPM = 500_000 // counted from the first call on
		w.Tenants = append(w.Tenants, one)
	}
	s := harness.Start(t, w)
	apply := func(n int) {
		testkit.OK(t, s.Gateway.Apply(policyNo(t, w, n)))
	}
	apply(0)

	l := &load{Stack: s}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.run(ctx) }()
	began := time.Now()
	counters := countersOf(s)
	used := usedBy(s)
	slowest := time.Duration(0)
	n := 0
	for n < *reloads && time.Since(began) < 40*time.Second { // a slow machine gets fewer, for the minute rolls on
		n++
		time.Sleep(100 * time.Millisecond)
		at := time.Now()
		apply(n)
		slowest = max(slowest, time.Since(at))
		now := countersOf(s)
		usedNow := usedBy(s)
		checkGrown(t, n, counters, now)
		checkGrown(t, n, used, usedNow)
		counters = now
		used = usedNow
	}
	took := time.Since(began)
	end()
	<-done
	checkAtRest(s, bill)
	t.Logf("%d policies in %v, the slowest taken over in %v: %d calls (%.0f a second), of them %d streams; %d served, %d of unknown tenants, %d failed",
		n, took.Round(time.Millisecond), slowest.Round(10*time.Microsecond), l.sent.Load(), float64(l.sent.Load())/took.Seconds(), l.streams.Load(), l.served.Load(), l.unknown.Load(), l.failed.Load())
	if l.failed.Load() > 0 || l.unknown.Load() == 0 || l.served.Load() < int64(n)*5 {
		t.Error("calls failed, or there was no load")
	}
	if running, waiting := s.Governor.Leases(); running+waiting != 0 {
		t.Errorf("%d leases, %d wait", running, waiting)
	}
}

// checkAtRest compares what was charged with what was produced, and wants nobody to
// hold anything.
func checkAtRest(s *harness.Stack, b *bill) {
	s.T.Helper()
	calls, charged := b.of("")
	st := s.Mock.Stats()
	s.T.Logf("charged %d tokens of %d calls, produced %d of %d", charged, calls, st.TokensProduced, st.Completed)
	if charged != st.TokensProduced || calls != st.Completed || st.Running != 0 || st.Queued != 0 {
		s.T.Errorf("charged %d tokens of %d calls; the model server has %+v", charged, calls, st)
	}
	for _, name := range staying {
		counted := int64(0)
		for _, kind := range []string{"input", "output"} {
			counted += s.Sum("llmgov_tokens_total", map[string]string{"tenant": name, "pool": "p", "kind": kind})
		}
		if logged := b.tokens[name+"/p"]; logged != counted || logged == 0 {
			s.T.Errorf("%s: %d tokens by the log, %d by the metrics", name, logged, counted)
		}
	}
	checkUsed(s, b)
	for _, ts := range s.Governor.State().Tenants {
		if ts.Running != 0 || ts.InLine != 0 {
			s.T.Errorf("tenant %s: %d run and %d stand in line when all is over", ts.Config.Name, ts.Running, ts.InLine)
		}
	}
}

// checkUsed wants all calls to count against their tenant's limit still.
func checkUsed(s *harness.Stack, b *bill) {
	s.T.Helper()
	used := usedBy(s)
	for _, name := range staying {
		if made, _ := b.of(name + "/"); used["used of "+name] != made {
			s.T.Errorf("%s: %d calls count against its limit, and it has made %d", name, used["used of "+name], made)
		}
	}
}

// A tenant is deleted in mid-stream: its key is refused from then on, its stream runs
// to its end and is charged, and then nothing is left of it.
func TestReload_TenantDeletedInMidStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bill := newBill()
		w := harness.World{
			Mock: mock.Config{FirstToken: 300 * time.Millisecond, TokensPerSecond: 50},
			Pool: harness.Pool(60_000, 0, 10), Tenants: []tenants.Tenant{harness.Tenant("goes", 1), harness.Tenant("stays", 1)}, Log: bill,
		}
		s := harness.New(t, w)
		resp := testkit.Must(s.Post(t.Context(), "goes", harness.Chat(true, 300, `,"mock":{"output_tokens":250}`)))(t)
		defer resp.Body.Close()
		stream := bufio.NewReader(resp.Body)
		testkit.Must(stream.ReadString('\n'))(t)
		snap := testkit.Must(tenants.Build(w.Config(), []tenants.Tenant{harness.Tenant("stays", 2)}))(t)
		testkit.OK(t, s.Gateway.Apply(snap))
		if a := s.Call(t.Context(), "goes", harness.Chat(false, 9, "")); a.Status != http.StatusUnauthorized || harness.ErrorCode(a.Body) != "invalid_api_key" {
			t.Errorf("its key: %d %s", a.Status, a.Body)
		}
		s.Call(t.Context(), "stays", harness.Chat(false, 9, "")).WantOK(t, "who stays")
		if s.Series("goes") == 0 {
			t.Error("its series are gone before its stream")
		}
		rest, err := io.ReadAll(stream)
		if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
			t.Errorf("the stream ends with %v: %.300q", err, rest)
		}
		s.CheckIdle()
		if st := s.Mock.Stats(); bill.tokens["goes/p"]+bill.tokens["stays/p"] != st.TokensProduced || bill.tokens["goes/p"] < 250 {
			t.Errorf("charged %v; produced %d", bill.tokens, st.TokensProduced)
		}
		if n := s.Series("goes"); n != 0 {
			t.Errorf("%d series are left of it", n)
		}
		if s.Charged("stays", "output") == 0 {
			t.Error("who stays was charged nothing")
		}
	})
}
